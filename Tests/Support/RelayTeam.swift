package import ChildProcesses
import Synchronization

/// The processes of an operator, each on ports that it keeps, run as a supervisor would.
package final class RelayTeam: Sendable {
  package let ports: [RelayPorts]
  private let site: RelayOperator
  private let overrides: @Sendable (Int) -> [String: String]
  private let running = Mutex<[Int: RelayProcess]>([:])

  private init(_ ports: [RelayPorts], _ site: RelayOperator, _ overrides: @escaping @Sendable (Int) -> [String: String])
  {
    self.ports = ports
    self.site = site
    self.overrides = overrides
  }

  /// Starts `count` processes, runs `body`, and ends those that still run: each must exit with 0.
  package static func with<Result: Sendable>(
    _ count: Int, of site: RelayOperator, settings: [String: String] = [:],
    _ body: (RelayTeam) async throws -> Result
  ) async throws -> Result {
    try await with(try RelayPorts.free(count), of: site, settings: { _ in settings }, body)
  }

  /// The same on `ports`, with settings for each process.
  package static func with<Result: Sendable>(
    _ ports: [RelayPorts], of site: RelayOperator, settings: @escaping @Sendable (Int) -> [String: String],
    _ body: (RelayTeam) async throws -> Result
  ) async throws -> Result {
    let team = RelayTeam(ports, site, settings)
    do {
      for index in team.ports.indices { try await team.start(index) }
      let result = try await body(team)
      for process in team.all {
        let exit = await process.terminate()
        guard exit == .code(0) else { throw TestFailure("relay serve \(exit): \(process.log().suffix(2000))") }
      }
      return result
    } catch {
      for process in team.all {
        print("--- the end of a relay's log\n\(process.log().suffix(1500))")
        await process.kill9()
      }
      throw error
    }
  }

  package var urls: [String] { ports.map { "http://127.0.0.1:\($0.client)" } }
  /// The processes that run, or ran last.
  package var all: [RelayProcess] { running.withLock { Array($0.values) } }

  package func process(_ index: Int) throws -> RelayProcess {
    guard let process = running.withLock({ $0[index] }) else { throw TestFailure("no process \(index)") }
    return process
  }

  /// Starts a process that does not run, again and again until it serves.
  /// - Parameter binary: another build's executable.
  package func start(_ index: Int, binary: String? = nil) async throws {
    let settings = ports[index].settings.merging(overrides(index)) { $1 }
    let process = try await eventually("process \(index) serves", within: .seconds(180), every: .milliseconds(300)) {
      do {
        return try await site.serve(settings, binary: binary)
      } catch is TestFailure {
        return nil  // Its database may just be away.
      }
    }
    running.withLock { $0[index] = process }
  }

  /// SIGKILL for all of `indices`, and others in their place after `pause`: at least one moment none of them runs.
  package func kill9(_ indices: [Int], pause: Duration) async throws {
    for index in indices { try await process(index).kill9() }
    try await Task.sleep(for: pause)
    for index in indices { try await start(index) }
  }

  /// SIGTERM, and another one when it has ended. - Returns: how it ended.
  package func replace(_ index: Int) async throws -> ChildProcess.Exit {
    let exit = try await process(index).terminate(within: .seconds(90))
    try await start(index)
    return exit
  }
}

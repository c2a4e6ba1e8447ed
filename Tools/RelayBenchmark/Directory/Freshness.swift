import ChildProcesses
import RelayClient
import RelayCore

/// How long after a registration was sent another relay process finds the number.
///
/// It is asked again and again from the answer on, which may itself wait until its own process has the change.
struct Freshness: Sendable {
  let servers: ServerGroup
  let registrations: Int

  /// Sooner or it is a failure.
  private static let limit = Duration.seconds(30)
  /// From one question to the next.
  private static let pause = Duration.milliseconds(1)

  /// - Parameter entries: contacts of `directory`, which does not run.
  /// - Returns: at another process of the same operator, and at a peer that copies the listing.
  func run(_ directory: LargeDirectory, entries: Int) async throws -> [FreshnessFigures] {
    let home = directory.home
    let first = try await directory.serve(as: "\(home.name)-first", at: home.ports, entries: entries)
    let otherPorts = try await RelayOperator.Ports.free()
    let second = try await directory.serve(as: "\(home.name)-second", at: otherPorts, entries: entries)
    let account = try await Registrar(keyCount: 1).register(1, firstDigits: 8, at: home.url)[0]
    // How often each looks without being told. Registrations fall anywhere between two looks.
    let figures = [
      FreshnessFigures(
        .process,
        try await times(
          registering: 81_000_000, at: home.url, watching: try client(account, "http://127.0.0.1:\(otherPorts.client)"),
          round: .milliseconds(500))),
      FreshnessFigures(
        .peer,
        try await times(
          registering: 82_000_000, at: servers.beta.url, watching: try client(account, home.url), round: .seconds(2))),
    ]
    await second.stop()
    await first.stop()
    return figures
  }

  private func client(_ account: BenchmarkAccount, _ url: String) throws -> RelayClient {
    let number = try number(account.number)
    return try RelayClient(url: url, credentials: Credentials(Correspondent(number), password: account.password))
  }

  private func number(_ e164: String) throws(BenchmarkFailure) -> PhoneNumber {
    guard let number = PhoneNumber(e164) else { throw BenchmarkFailure("a number of the benchmark is none") }
    return number
  }

  private func times(
    registering firstDigits: Int, at url: String, watching watcher: RelayClient, round: Duration
  ) async throws -> [Duration] {
    let origin = try RelayClient(url: url)
    var times: [Duration] = []
    for index in 0..<registrations {
      try await Task.sleep(for: round * Double.random(in: 0..<1))
      times.append(try await time(registering: number("+999\(firstDigits + index)"), at: origin, watching: watcher))
    }
    return times
  }

  private func time(
    registering number: PhoneNumber, at origin: RelayClient, watching watcher: RelayClient
  ) async throws -> Duration {
    let token = ContactTokens.token(for: number)
    guard let code = try await origin.requestCode(for: number, by: .development) else {
      throw BenchmarkFailure("the transport dev answered without a code")
    }
    guard try await watcher.lookUpInClear([token]).isEmpty else {
      throw BenchmarkFailure("a number was registered before")
    }
    let sent = ContinuousClock.now
    try await origin.with(.random(for: number)).confirm(code: code, attributes: .random())
    while true {
      let isFound = try await !watcher.lookUpInClear([token]).isEmpty
      let passed = ContinuousClock.now - sent
      if isFound { return passed }
      guard passed < Self.limit else { throw BenchmarkFailure("a registration was not seen within \(Self.limit)") }
      try await Task.sleep(for: Self.pause)
    }
  }
}

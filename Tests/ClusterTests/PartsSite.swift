import ChildProcesses
import Foundation
import RelayClient
import RelayCore
import Synchronization
import TestSupport
import Testing

/// An operator whose directory lies in parts, with a process for clients.
final class PartsSite: Sendable {
  let clients: RelayProcess
  private let cluster: Cluster
  private let count: Int
  /// The part of each process, and where it is asked.
  private let places: [Place]
  private let running: Mutex<[Int: RelayProcess]>
  /// The settings of TLS; empty where parts are asked in clear.
  private let secure: [String: String]

  private struct Place {
    let part: Int
    let port: Int
  }

  private init(
    _ clients: RelayProcess, _ cluster: Cluster, _ count: Int, _ places: [Place], _ all: [RelayProcess],
    _ secure: [String: String]
  ) {
    self.secure = secure
    self.clients = clients
    self.cluster = cluster
    self.count = count
    self.places = places
    running = Mutex(Dictionary(uniqueKeysWithValues: all.enumerated().map { ($0, $1) }))
  }

  /// - Parameters:
  ///   - numbers: the part of each process.
  ///   - count: of the parts.
  ///   - runningCount: how many of the processes run from the start; nil: all.
  ///   - authority: of the certificates, where parts are asked over TLS.
  static func with(
    _ numbers: [Int], of count: Int, running runningCount: Int? = nil, trusting authority: TestAuthority? = nil,
    _ body: @Sendable (PartsSite) async throws -> Void
  ) async throws {
    try await Cluster.with { cluster in
      let places = zip(numbers, try Loopback.freePorts(numbers.count)).map { Place(part: $0, port: $1) }
      let secure = try authority.map { try certificates(of: $0, in: cluster.site.folder) } ?? [:]
      let settings = parts(places, count, secure)
      var started: [RelayProcess] = []
      do {
        for place in places.prefix(runningCount ?? places.count) {
          started.append(try await cluster.site.serve(own(place, count).merging(settings) { $1 }))
        }
        let clients = try await cluster.site.serve(["RELAY_ROLES": "clients,peers,push"].merging(settings) { $1 })
        started.append(clients)
        let site = PartsSite(clients, cluster, count, places, started.dropLast(), secure)
        try await body(site)
        for process in site.running.withLock({ Array($0.values) }) + [clients] where process.child.exit == nil {
          #expect(await process.terminate() == .code(0), "\(process.log().suffix(2000))")
        }
      } catch {
        for process in started {
          print("--- the end of a relay's log\n\(process.log().suffix(1500))")
          await process.kill9()
        }
        throw error
      }
    }
  }

  private static func parts(_ places: [Place], _ count: Int, _ secure: [String: String]) -> [String: String] {
    let list = places.map { "\($0.part)/\(count)=http\(secure.isEmpty ? "" : "s")://127.0.0.1:\($0.port)" }
    return [
      "RELAY_DIRECTORY_PARTS": list.joined(separator: ","), "RELAY_LIMITS_CONTACT_QUERIES_SIZE": "100000000",
    ].merging(secure) { $1 }
  }

  private static func certificates(of authority: TestAuthority, in folder: String) throws -> [String: String] {
    let (ca, chain, key) = ("\(folder)/parts-ca.pem", "\(folder)/parts.pem", "\(folder)/parts-key.pem")
    try authority.pem.write(toFile: ca, atomically: true, encoding: .utf8)
    try authority.leaf(relay: nil).write(chain: chain, key: key)
    return [
      "RELAY_DIRECTORY_TLS_CA": ca, "RELAY_DIRECTORY_TLS_CERTIFICATE": chain, "RELAY_DIRECTORY_TLS_KEY": key,
    ]
  }

  private static func own(_ place: Place, _ count: Int) -> [String: String] {
    [
      "RELAY_ROLES": "directory", "RELAY_DIRECTORY_PARTITION": "\(place.part)/\(count)",
      "RELAY_DIRECTORY_PORT": "\(place.port)",
    ]
  }

  // MARK: Processes

  func process(_ index: Int) throws -> RelayProcess { try #require(running.withLock { $0[index] }) }

  /// Starts a process that does not run.
  func start(_ index: Int) async throws {
    let settings = Self.own(places[index], count).merging(Self.parts(places, count, secure)) { $1 }
    let process = try await cluster.site.serve(settings)
    running.withLock { $0[index] = process }
  }

  /// The port at which a process is asked for its part.
  func port(_ index: Int) -> Int { places[index].port }

  func kill(_ index: Int) async { await running.withLock { $0[index] }?.kill9() }

  /// One with all roles and the whole directory.
  func startWhole() async throws -> RelayProcess { try await cluster.site.serve() }

  func hasSnapshot(ofPart number: Int) -> Bool {
    FileManager.default.fileExists(
      atPath: "\(cluster.site.folder)/relay-data/directory.snapshot.\(number)-of-\(count)")
  }

  // MARK: Contacts

  static func token(of number: String) throws -> ContactToken {
    let text = ContactTokens.token(for: try #require(PhoneNumber(number)))
    return try #require(Base64.decode(text.utf8).flatMap { ContactToken(bytes: $0) })
  }

  /// Registers accounts whose tokens are in a part.
  func registered(inPart number: Int, count wanted: Int) async throws -> [ContactToken] {
    let part = try #require(DirectoryPartition(number, of: count))
    var tokens: [ContactToken] = []
    while tokens.count < wanted {
      let number = TestDevice.freshNumber()
      let token = try Self.token(of: number)
      guard part.holds(token) else { continue }
      _ = try await clients.register(number)
      tokens.append(token)
    }
    return tokens
  }

  /// Contacts of a peer, as if it had listed them.
  func listAtPeer(_ count: Int) async throws -> [ContactToken] {
    let tokens = try (0..<count).map { _ in try Self.token(of: TestDevice.freshNumber()) }
    let list = tokens.map { $0.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
    let text = """
      INSERT INTO peers (name, url, ca_certificate, state, scopes, added)
      VALUES ('elsewhere', 'https://elsewhere.example:9443', '\\x01', 'active', 'directory', 0);
      INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
      SELECT 'elsewhere', decode(token, 'hex'), false, true, 1
      FROM unnest(string_to_array('\(list.joined(separator: ","))', ',')) AS token
      """
    try await Loopback.blocking { [cluster] in _ = try cluster.postgres.sql(text, in: cluster.database) }
    return tokens
  }

  // MARK: What is expected

  /// Parts hold all contacts together, and say so; so does the process that asks them.
  func expectMetrics(entries: Int) async throws {
    try await eventually("the metrics say what parts hold", every: .milliseconds(200)) {
      let asking = try await clients.ask("/metrics").text
      var held = 0
      for index in places.indices {
        let text = try await process(index).ask("/metrics").text
        let label = #"{part="\#(places[index].part)/\#(count)"}"#
        guard let own = Self.value("relay_directory_entries", in: text),
          Self.value("relay_directory_part_entries" + label, in: text) == own,
          Self.value("relay_directory_part_entries" + label, in: asking) == own,
          Self.value("relay_directory_part_processes" + label, in: asking) == 1
        else { return false }
        held += own
      }
      return held == entries
    }
    for index in places.indices {
      let process = try process(index)
      #expect(try process.sockets().listening == [process.operatorPort, places[index].port])
    }
    let asking = try await clients.ask("/metrics").text
    #expect(Self.value("relay_directory_entries", in: asking) == nil)
  }

  static func value(_ name: String, in metrics: String) -> Int? {
    metrics.split(separator: "\n").first { $0.hasPrefix(name + " ") }
      .flatMap { Double($0.dropFirst(name.count + 1)) }.map { Int($0) }
  }

  private struct Diagnosis: Decodable {
    let group: String
    let check: String
    let outcome: String
  }

  /// The doctor says so of one part, and that all others are covered.
  func expectDoctor(part: Int, _ outcome: String) async throws {
    let settings = [
      "RELAY_ROLES": "clients,peers,push", "RELAY_CLIENT_PORT": "\(clients.clientPort)",
      "RELAY_OPERATOR_PORT": "\(clients.operatorPort)",
    ].merging(Self.parts(places, count, secure)) { $1 }
    let result = try await cluster.site.run(["doctor", "--json"], overrides: settings)
    let found = try result.json([Diagnosis].self).filter { $0.group == "directory" }
    #expect(
      found.map { "\($0.check) \($0.outcome)" }
        == (1...count).map { "part \($0)/\(count) \($0 == part ? outcome : "ok")" })
  }
}

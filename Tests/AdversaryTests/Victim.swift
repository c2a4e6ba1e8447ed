// The operator that is attacked: real processes, on either kind of store, with hostile peers around it.

import ChildProcesses
import Foundation
import Logging
import NIOSSL
import RelayCore
import Storage
import SwiftASN1
import TestSupport
import X509

/// On what an operator keeps its state. Every attack is played on both.
enum StoreKind: String, CaseIterable, Sendable {
  /// SQLite and the process's own memory.
  case embedded
  /// PostgreSQL and Redis.
  case servers
}

/// An operator called `local`, its first process, and its federation listener.
struct Victim: Sendable {
  let site: RelayOperator
  let relay: RelayProcess
  /// nil on embedded stores.
  let database: String?

  /// Limits that no test of something else runs into.
  static let unlimited = Dictionary(
    uniqueKeysWithValues: LimiterName.allCases.filter { $0.meaning != nil && $0 != .contactQueries }.map { limiter in
      ("RELAY_LIMITS_\(limiter.rawValue.uppercased().replacing("-", with: "_"))_SIZE", "1000000")
    })

  /// Runs `body` with a relay on stores of its own. All of it is gone afterwards.
  /// - Parameter settings: configuration variables.
  static func with(
    _ kind: StoreKind, settings: [String: String] = unlimited, _ body: (Victim) async throws -> Void
  ) async throws {
    try await MachineRoom.with {
      switch kind {
      case .embedded:
        try await RelayOperator.with(settings: settings) { site in try await serve(site, database: nil, body) }
      case .servers:
        let postgres = try await Loopback.blocking { try PostgresServer.shared() }
        let database = try await Loopback.blocking { try postgres.createDatabase() }
        try await RedisServer.with { redis in
          let stores = RelayOperator.Stores.servers(storage: database, coordination: redis.url)
          try await RelayOperator.with(stores: stores, settings: settings) { site in
            try await site.relay("migrate", "run")
            try await serve(site, database: database, body)
          }
        }
      }
    }
  }

  private static func serve(
    _ site: RelayOperator, database: String?, _ body: (Victim) async throws -> Void
  ) async throws {
    try await site.relay("ca", "init")
    try await site.relay("ca", "issue")
    let relay = try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"])
    do {
      try await body(Victim(site: site, relay: relay, database: database))
    } catch {
      await relay.kill9()
      throw TestFailure("\(error); the relay's log: \(relay.log().suffix(2000))")
    }
    guard relay.child.exit == nil else { return }  // The test ended it itself.
    let exit = await relay.terminate()
    guard exit == .code(0) else { throw TestFailure("relay serve \(exit): \(relay.log().suffix(2000))") }
  }

  /// The CA that this operator's peers trust.
  var authority: Certificate {
    get throws {
      try Certificate(pemEncoded: String(contentsOfFile: site.folder + "/federation/ca.pem", encoding: .utf8))
    }
  }

  /// The URL at which peers reach it.
  var federationURL: String { "https://127.0.0.1:\(site.federationPort)" }

  /// Runs `body` on the operator's store, beside the running relay.
  func withStorage<Value>(_ body: (any RelayCore.Storage) async throws -> Value) async throws -> Value {
    let storage: any RelayCore.Storage
    if let database {
      storage = try PostgresStorage(url: database, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    } else {
      let clock = WallClock { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }
      storage = try SQLiteStorage(path: site.folder + "/relay.sqlite", clock: clock)
    }
    do {
      // A machine that starts many tests takes longer to connect than a call waits.
      try await eventually("the store answers") { (try? await storage.ping()) != nil }
      let value = try await body(storage)
      await storage.close()
      return value
    } catch {
      await storage.close()
      throw error
    }
  }

  /// Makes `peer` an active peer, as an invitation that it accepted would have.
  func trust(_ peer: ScriptedPeer, as name: String, scopes: Set<Peer.Scope> = Set(Peer.Scope.allCases)) async throws {
    guard let name = RelayName(name) else { throw TestFailure("not a relay's name") }
    let der = try peer.authority.der
    let saved = try await withStorage { storage in
      try await storage.savePeer(
        Peer(
          name: name, url: peer.url, caCertificate: der, state: .active, scopes: scopes,
          added: Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))))
    }
    guard saved else { throw TestFailure("the peer was not saved") }
  }

  /// Runs `body` with a client that presents the leaf of `peer` to this operator's federation listener.
  func withClient<Value>(of peer: ScriptedPeer, _ body: (RawClient) async throws -> Value) async throws -> Value {
    try await TestSupport.withClient(
      to: federationURL, peer.leaf.clientConfiguration(trusting: authority), body)
  }
}

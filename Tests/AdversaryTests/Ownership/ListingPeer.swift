// A peer whose listing a test writes, and what a test asks the victim about it.

import Crypto
import Foundation
import GRDB
import NIOHTTP1
import RelayCore
import Synchronization
import TestSupport

/// A scripted peer that lists numbers, as pages, as a feed, and to those who ask.
final class ListingPeer: Sendable {
  enum Style: Sendable {
    /// Read whole whenever it changes.
    case pages
    /// Read whole once, and followed.
    case feed
    /// Asked at look-up time.
    case asked
  }
  private struct State {
    /// Active or not, by number; in the order of their last changes.
    var listing: [(number: String, isActive: Bool)] = []
    var revision = 0
    /// Revision and what changed.
    var changes: [(revision: Int, number: String, isActive: Bool)] = []
  }

  let name: String
  let peer: ScriptedPeer
  private let state = Mutex(State())
  private let style: Style

  static func start(_ name: String, _ style: Style) async throws -> ListingPeer {
    let started = ListingPeer(name, try await ScriptedPeer.start(name), style)
    started.peer.answer(by: { [weak started] in started?.answer($0) })
    return started
  }

  private init(_ name: String, _ peer: ScriptedPeer, _ style: Style) {
    self.name = name
    self.peer = peer
    self.style = style
  }

  /// From now on `number` is listed, as active or not.
  func list(_ number: String, isActive: Bool = true) {
    state.withLock { state in
      state.listing.removeAll { $0.number == number }
      state.listing.append((number, isActive))
      state.revision += 1
      state.changes.append((state.revision, number, isActive))
    }
  }

  /// From now on `number` is in no page; followers hear that it is inactive, once.
  func unlist(_ number: String) {
    state.withLock { state in
      state.listing.removeAll { $0.number == number }
      state.revision += 1
      state.changes.append((state.revision, number, false))
    }
  }

  private func answer(_ request: ScriptedPeer.Request) -> ScriptedPeer.Answer {
    let (listing, revision, changes) = state.withLock { ($0.listing, $0.revision, $0.changes) }
    let path = String(request.path.split(separator: "?")[0])
    switch path {
    case "/v1/federation/peering":
      let capabilities =
        switch style {
        case .pages: ""
        case .feed: #""changes""#
        case .asked: #""lookup""#
        }
      return .init(status: 200, body: #"{"name":"local","state":"active","capabilities":[\#(capabilities)]}"#)
    case "/v1/federation/user_count":
      return .init(status: 200, headers: [("ETag", "\"\(revision)\"")], body: #"{"count":\#(listing.count)}"#)
    case "/v1/federation/user_tokens/0":
      return .init(status: 200, body: #"{"contacts":[\#(listing.map(Self.entry).joined(separator: ","))]}"#)
    case let path where path.hasPrefix("/v1/federation/user_tokens/"):
      return .init(status: 200, body: #"{"contacts":[]}"#)
    case "/v1/federation/changes" where style == .feed:
      let after = request.path.split(separator: "-").last.flatMap { Int($0.prefix { $0.isNumber }) }
      let news = after.map { after in changes.filter { $0.revision > after } } ?? []
      let entries = news.map { Self.entry(($0.number, $0.isActive)) }.joined(separator: ",")
      return .init(status: 200, body: #"{"contacts":[\#(entries)],"cursor":"1-\#(revision)","more":false}"#)
    case "/v1/federation/tokens":
      let known = listing.filter { $0.isActive && request.body.contains(Self.jsonToken(of: $0.number)) }
      return .init(status: 200, body: #"{"contacts":[\#(known.map(Self.entry).joined(separator: ","))]}"#)
    default: return .init(status: 404)
    }
  }

  private static func entry(_ account: (number: String, isActive: Bool)) -> String {
    #"{"token":"\#(token(of: account.number).base64)"\#(account.isActive ? "" : #","inactive":true"#)}"#
  }

  static func token(of number: String) -> ContactToken {
    ContactToken(firstBytesOf: Array(Insecure.SHA1.hash(data: Data(number.utf8))))
  }

  /// As a JSON text may hold it: a slash may be escaped.
  private static func jsonToken(of number: String) -> String { token(of: number).base64 }
}

extension Victim {
  /// Rounds that no test waits for long.
  static var quickRounds: [String: String] {
    unlimited.merging(["RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.1"]) { $1 }
  }

  /// Starts `name`, and makes it a peer.
  func befriend(_ name: String, _ style: ListingPeer.Style) async throws -> ListingPeer {
    let listing = try await ListingPeer.start(name, style)
    try await trust(listing.peer, as: name)
    if style == .asked {
      let isSet = try await withStorage { storage in
        guard let name = RelayName(name) else { return false }
        return try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: name)
      }
      guard isSet else { throw TestFailure("the policy was not set") }
    }
    return listing
  }

  /// The answer to a client that looks `number` up: nil for nobody, else the relay's name, "" for the victim itself.
  func relay(of number: String, as caller: TestDevice) async throws -> String? {
    let body = #"{"contacts":["\#(ListingPeer.token(of: number).base64)"]}"#
    let answer = try await relay.send("PUT", "/v1/directory/tokens", json: body, as: caller)
    guard answer.status == 200 else { throw TestFailure("no look-up: \(answer.status) \(answer.text)") }
    return answer.list("contacts").first.map { $0["relay"] as? String ?? "" }
  }

  /// Has `peer` hand a message over that comes from `source`. - Returns: the answer's status.
  func speak(_ peer: ListingPeer, for source: String, to number: String) async throws -> Int {
    try await withClient(of: peer.peer) { client in
      try await client.send(
        .PUT, "/v1/federation/messages/\(source)/1/\(number)", body: bundle(message(registrationID: 111), timestamp: 1)
      ).status
    }
  }

  /// Lets all tombstones be as old as can be.
  func ageTombstones() async throws {
    if let database {
      try await Loopback.blocking {
        _ = try PostgresServer.shared().sql(
          "UPDATE peer_contacts SET unlisted = 0 WHERE unlisted IS NOT NULL", in: database)
      }
    } else {
      let queue = try SQLiteDatabase.open(site.folder + "/relay.sqlite")
      try await queue.write { db in
        try db.execute(sql: "UPDATE peer_contacts SET unlisted = 0 WHERE unlisted IS NOT NULL")
      }
    }
  }

  /// How many passes of ownership this process has counted.
  func passesCounted() async throws -> Int {
    let text = try await relay.ask("/metrics").text
    return text.split(separator: "\n").first { $0.hasPrefix("relay_contact_passes_total") }
      .flatMap { $0.split(separator: " ").last }.flatMap { Double($0) }.map { Int($0) } ?? 0
  }
}

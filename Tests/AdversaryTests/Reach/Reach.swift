// The means of attacks by URLs and by floods, beside a victim.

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RelayCore
import Synchronization
import TestSupport

extension Victim {
  /// Makes `peer` an active peer whose URL is `url`, wherever that leads.
  func trust(_ peer: ScriptedPeer, as name: String, at url: String) async throws {
    guard let name = RelayName(name) else { throw TestFailure("not a relay's name") }
    let der = try peer.authority.der
    let saved = try await withStorage { storage in
      try await storage.savePeer(
        Peer(
          name: name, url: url, caCertificate: der, state: .active, scopes: Set(Peer.Scope.allCases),
          added: Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))))
    }
    guard saved else { throw TestFailure("the peer was not saved") }
  }

  /// As `withClient(of:)`, whatever host this operator's leaf is for.
  func withAnyHost<Value>(of peer: ScriptedPeer, _ body: (RawClient) async throws -> Value) async throws -> Value {
    var configuration = try peer.leaf.clientConfiguration(trusting: authority)
    configuration.certificateVerification = .noHostnameVerification
    return try await TestSupport.withClient(to: federationURL, configuration, body)
  }

  /// Waits until the relay knows `peer`.
  func knows(_ peer: ScriptedPeer) async throws {
    try await eventually("the peer is known") {
      // Until the relay has read its peers anew, the handshake fails.
      let answer = try? await withAnyHost(of: peer) { try await $0.get("/v1/federation/peering") }
      return answer?.status == 200
    }
  }

  /// Has the relay walk to `peer`.
  func walk(to peer: ScriptedPeer) async throws -> WalkAnswer {
    let start = ContinuousClock.now
    let answer = try await withAnyHost(of: peer) {
      try await $0.send(.PUT, "/v1/federation/probe", body: #"{"run":true}"#)
    }
    guard answer.status == 200, let steps = answer.text.range(of: #""steps":"#) else {
      throw TestFailure("\(answer.status) \(answer.text)")
    }
    return WalkAnswer(steps: String(answer.text[steps.upperBound...]), took: .now - start)
  }

  /// The sum of the metric `name` over those of its lines that contain `words`.
  func metric(_ name: String, _ words: String = "") async throws -> Double {
    let request = HTTPClientRequest(url: relay.operatorURL + "/metrics")
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
    let text = String(buffer: try await response.body.collect(upTo: 4 << 20))
    return text.split(separator: "\n").filter { $0.hasPrefix(name) && $0.contains(words) }
      .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0, +)
  }
}

struct WalkAnswer: Sendable {
  /// JSON, as it came.
  let steps: String
  let took: Duration
}

/// A port that takes connections, says nothing, and counts them.
final class Trap: Sendable {
  private let taken = Atomic(0)
  private let channel = Mutex<(any Channel)?>(nil)

  var count: Int { taken.load(ordering: .relaxed) }
  var port: Int { channel.withLock { $0?.localAddress?.port } ?? 0 }

  static func with(_ body: (Trap) async throws -> Void) async throws {
    let trap = Trap()
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        trap.taken.wrappingAdd(1, ordering: .relaxed)
        return channel.eventLoop.makeSucceededVoidFuture()
      }
      .bind(host: "127.0.0.1", port: 0).get()
    trap.channel.withLock { $0 = channel }
    do {
      try await body(trap)
    } catch {
      try await channel.close()
      throw error
    }
    try await channel.close()
  }
}

/// Connections that say nothing, from addresses of its own, for as long as the other side has them.
final class Flood: Sendable {
  private let port: Int
  private let channels = Mutex<[any Channel]>([])

  init(port: Int) { self.port = port }

  /// The channels that the other side has not closed.
  var heldCount: Int { channels.withLock { $0.count(where: \.isActive) } }

  /// - Parameter bytes: what is said at once, and no more.
  func connect(from address: String, saying bytes: String = "") async throws {
    let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .bind(to: SocketAddress(ipAddress: address, port: 0)).connectTimeout(.seconds(30))
      .connect(host: "127.0.0.1", port: port).get()
    channels.withLock { $0.append(channel) }
    // Closed by the other side already: `heldCount` tells.
    if !bytes.isEmpty { try? await channel.writeAndFlush(ByteBuffer(string: bytes)) }
  }

  func end() async {
    for channel in channels.withLock({ $0 }) {
      do { try await channel.close() } catch {
        // Closed by the other side already.
      }
    }
  }
}

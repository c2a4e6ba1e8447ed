import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// How long a known peer waits for its first answer on a new connection, alone and while somebody else opens
/// connections without certificates: half of them silent, half in a handshake that proves nobody.
struct HandshakeFlood: Sendable {
  /// Connections a second, from `floodAddress`.
  static let perSecond = 140
  private static let floodAddress = "127.0.0.9"
  /// Between two connections of the peer.
  private static let pause = Duration.milliseconds(50)

  let servers: ServerGroup
  let settings: BenchmarkSettings

  func run() async throws -> HandshakeFloodFigures {
    let port = servers.alpha.ports.federation
    let peer = try PeerHandshakes(port: port, trusting: servers.alpha.identity, presenting: servers.beta.identity)
    // Makes the address known, as a peer's is.
    _ = try await peer.shakeHands()
    let alone = try await measure(peer)
    let flood = Flood(
      port: port, tls: try PeerHandshakes(port: port, trusting: servers.alpha.identity, presenting: nil).context)
    let pouring = Task { await flood.pour(perSecond: Self.perSecond, from: Self.floodAddress) }
    // As long as it takes to fill whatever it may fill.
    try await Task.sleep(for: .seconds(min(10, settings.seconds)))
    let figures: Result<LatencyHistogram, any Error>
    do {
      figures = .success(try await measure(peer))
    } catch {
      figures = .failure(error)
    }
    pouring.cancel()
    let opened = await pouring.value
    flood.end()
    return HandshakeFloodFigures(
      perSecond: Self.perSecond, opened: opened, alone: .init(alone), flooded: .init(try figures.get()))
  }

  private func measure(_ peer: PeerHandshakes) async throws -> LatencyHistogram {
    var latencies = LatencyHistogram()
    let end = ContinuousClock.now + .seconds(settings.seconds)
    while ContinuousClock.now < end {
      latencies.record(nanoseconds: UInt64(try await peer.shakeHands() / .nanoseconds(1)))
      try await Task.sleep(for: Self.pause)
    }
    return latencies
  }
}

struct HandshakeFloodFigures: Sendable, Encodable {
  struct Side: Sendable, Encodable {
    let handshakes: UInt64
    let p50Millis: Double
    let p99Millis: Double

    init(_ latencies: LatencyHistogram) {
      handshakes = latencies.count
      p50Millis = latencies.quantile(0.5).millis
      p99Millis = latencies.quantile(0.99).millis
    }
  }
  let perSecond: Int
  /// Connections that the flood has opened.
  let opened: Int
  let alone: Side
  let flooded: Side
}

/// Connections that stay until the other side ends them.
private final class Flood: Sendable {
  private let port: Int
  private let tls: NIOSSLContext
  private let channels = Mutex<[ObjectIdentifier: any Channel]>([:])

  init(port: Int, tls: NIOSSLContext) {
    self.port = port
    self.tls = tls
  }

  /// Opens connections until cancelled, whatever becomes of them. - Returns: how many.
  func pour(perSecond: Int, from address: String) async -> Int {
    let start = ContinuousClock.now
    var count = 0
    while !Task.isCancelled {
      open(from: address, isSilent: count.isMultiple(of: 2))
      count += 1
      do {
        try await Task.sleep(until: start + .seconds(1) * count / perSecond, clock: .continuous)
      } catch {
        break
      }
    }
    return count
  }

  func end() {
    for channel in channels.withLock({ Array($0.values) }) { channel.close(promise: nil) }
  }

  private func open(from address: String, isSilent: Bool) {
    guard let local = try? SocketAddress(ipAddress: address, port: 0) else { return }  // It stands above.
    ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .bind(to: local)
      .channelInitializer { [self] channel in
        channel.eventLoop.makeCompletedFuture {
          keep(channel)
          guard !isSilent else { return }
          try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: tls, serverHostname: nil))
        }
      }
      .connect(host: "127.0.0.1", port: port)
      .whenComplete { _ in }
  }

  private func keep(_ channel: any Channel) {
    channels.withLock { $0[ObjectIdentifier(channel)] = channel }
    channel.closeFuture.whenComplete { [self] _ in channels.withLock { $0[ObjectIdentifier(channel)] = nil } }
  }
}

import NIOCore
import NIOPosix
import RelayWork

/// The connections of a client; closed when the last reference is gone.
final class PushConnections: Sendable {
  let end = PushConnectionEnd()
  private let pools: PushPools

  init(_ settings: PushClient.Settings, _ tls: PushTLS) {
    pools = PushPools(settings, tls, end, on: MultiThreadedEventLoopGroup.singleton.next())
  }

  // Nothing is under way: each request holds a reference.
  deinit { pools.close() }

  func post(_ request: PushRequest, deadline: ContinuousClock.Instant) async throws(PushFailure) -> PushAnswer {
    // They stay open until the answer is there, whoever has taken others meanwhile.
    defer { withExtendedLifetime(self) {} }
    guard let url = request.url else { throw .unreachable }
    // The codecs would end the connection for it, with all others on it.
    guard request.headers.allSatisfy({ Self.isFieldValue($0.value) }) else { throw .lost }
    let call = PushCall(
      url: url, headers: request.headers, body: ByteBuffer(bytes: request.body),
      deadline: .now() + TimeAmount(deadline - .now))
    pools.take(call)
    guard let answer = await call.answer.value() else {
      pools.giveUp(call)
      throw .cancelled
    }
    return try answer.get()
  }

  /// RFC 9110, 5.5: neither an end of a line nor another control character.
  private static func isFieldValue(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
  }
}

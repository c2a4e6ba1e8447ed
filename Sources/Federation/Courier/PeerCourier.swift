import NIOCore
package import RelayCore
import RelayHTTP

/// Carries prekey draws and messages to peers (reference 1.13.2), and their refusals back (1.13.4).
package struct PeerCourier: Courier {
  private let registry: PeerRegistry
  private let transport: PeerTransport

  package init(registry: PeerRegistry, transport: PeerTransport) {
    self.registry = registry
    self.transport = transport
  }

  package func preKeys(
    of account: AccountNumber, devices: DeviceSelector, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] {
    var request = PeerRequest.get("/v1/federation/key/\(account.e164)/\(devices.text)")
    request.answerBytesMax = Self.keysBytesMax
    let answer = try await send(request, to: relay)
    do throws(JSONError) {
      let drawn = try PreKeyCodec.decodeDrawn(answer.body.readableBytesUInt8Span.bytes)
      guard !drawn.isEmpty else { throw JSONError.wrongShape }
      return drawn
    } catch {
      throw Self.unavailable
    }
  }

  package func submit(
    _ submission: Submission, from source: DeviceAddress, to relay: RelayName
  ) async throws(Problem) {
    let path =
      "/v1/federation/messages/\(source.account.e164)/\(source.device)/\(submission.destination.e164)"
    _ = try await send(.put(path, MessageBundle.encode(submission)), to: relay)
  }

  /// A key and its texts for each of as many devices as a bundle may address.
  private static let keysBytesMax = 512 << 10
  private static let unavailable = Problem(.peerUnavailable, retryAfter: .seconds(2))

  /// - Returns: an answer of success.
  private func send(_ request: PeerRequest, to relay: RelayName) async throws(Problem) -> PeerAnswer {
    guard let peer = await registry.peer(named: relay), peer.isActive else { throw Problem(.notFound) }
    let answer: PeerAnswer
    do {
      answer = try await transport.send(request, to: peer)
    } catch {
      throw Self.unavailable
    }
    guard (200...299).contains(answer.status) else { throw Self.problem(answer) }
    return answer
  }

  /// What a peer's refusal is to our client. A 401 or 403 of theirs concerns us, not the client.
  static func problem(_ answer: PeerAnswer) -> Problem {
    switch answer.status {
    case 404: return Problem(.notFound)
    case 409, 410:
      do throws(JSONError) {
        let devices = try Problem.Devices.decode(
          answer.body.readableBytesUInt8Span.bytes, isStale: answer.status == 410)
        return Problem(answer.status == 410 ? .staleDevices : .mismatchedDevices, devices: devices)
      } catch {
        return unavailable
      }
    case 413: return Problem(.rateLimited, retryAfter: answer.retryAfterSeconds.map { .seconds(min(max($0, 1), 3600)) })
    default: return unavailable
    }
  }
}

import NIOCore
package import RelayCore
import RelayHTTP

/// Carries what our clients want of a peer (reference 1.13.2), and the peer's refusals back (1.13.4).
package struct PeerCourier: Courier {
  private let registry: PeerRegistry
  private let transport: PeerTransport

  package init(registry: PeerRegistry, transport: PeerTransport) {
    self.registry = registry
    self.transport = transport
  }

  package func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] {
    let path = "federation/key/\(account.e164)/\(devices.text)"
    var request = PeerRequest.get(version == .one ? "/v1/\(path)" : "/v2/\(path)")
    request.answerBytesMax = Self.keysBytesMax
    let drawn = try read(try await send(request, to: relay)) { json throws(JSONError) in
      switch version {
      case .one: try PreKeyCodec.decodeDrawn(json)
      case .two: try PreKeyCodec.decodeDrawnV2(json)
      }
    }
    guard !drawn.isEmpty else { throw Self.unavailable }
    return drawn
  }

  /// A submission of the first generation goes in the form of the later ones: where the destination has more devices
  /// than one, the peer answers `.mismatchedDevices`.
  package func submit(
    _ submission: Submission, from source: DeviceAddress, to relay: RelayName
  ) async throws(Problem) {
    let path =
      "/v1/federation/messages/\(source.account.e164)/\(source.device)/\(submission.destination.e164)"
    _ = try await send(.put(path, MessageBundle.encode(submission)), to: relay)
  }

  package func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) {
    let path =
      "/v1/receipt/\(source.account.e164)/\(source.device)/\(destination.e164)/\(timestamp.millis)"
    _ = try await send(.put(path), to: relay)
  }

  package func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    let answer = try await send(.get("/v1/federation/attachment/\(id.text)"), to: relay)
    return try read(answer) { json throws(JSONError) in try AttachmentLocation.decode(json) }.url
  }

  /// A key and its texts for each of as many devices as a bundle may address.
  private static let keysBytesMax = 512 << 10
  private static let unavailable = Problem(.peerUnavailable, retryAfter: .seconds(2))

  /// A peer that answers what it should not is as good as away.
  private func read<Value>(
    _ answer: PeerAnswer, _ decode: (RawSpan) throws(JSONError) -> Value
  ) throws(Problem) -> Value {
    do throws(JSONError) {
      return try decode(answer.body.readableBytesUInt8Span.bytes)
    } catch {
      throw Self.unavailable
    }
  }

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

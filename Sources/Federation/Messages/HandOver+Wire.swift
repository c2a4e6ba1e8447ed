import NIOCore
import RelayCore
import SwiftProtobuf
import WireMessages

extension HandOver {
  /// As a request of its own: the last of the reference's forms (1.13.2), or a receipt's path. A submission of the
  /// first generation goes in the form of the later ones: where the destination has more devices than one, the peer
  /// answers with the devices that are missing.
  var request: PeerRequest {
    switch self {
    case .message(let submission, let source):
      .put(
        "/v1/federation/messages/\(source.account.e164)/\(source.device)/\(submission.destination.e164)",
        MessageBundle.encode(submission))
    case .receipt(let timestamp, let source, let destination):
      .put("/v1/receipt/\(source.account.e164)/\(source.device)/\(destination.e164)/\(timestamp.millis)")
    }
  }

  /// An upper bound of the bytes that it takes in a batch.
  var wireBytesMax: Int {
    switch self {
    // Numbers, devices and a time; and for each message its own.
    case .message(let submission, _):
      73 + byteCount + SubmittedMessage.wireOverheadBytesMax * submission.messages.count
    case .receipt: 73
    }
  }

  /// - Parameter crossings: its own, or none.
  func wire(_ crossings: [Crossing]) -> Relay_HandOver {
    var wire = Relay_HandOver()
    switch self {
    case .message(let submission, let source):
      wire.setAddresses(source, submission.destination)
      if let timestamp = submission.timestamp { wire.timestamp = timestamp.millis }
      wire.coversMasterOnly = submission.coverage == .masterDevice
      wire.request = submission.request?.bits ?? 0
      wire.messages = submission.messages.map(Relay_HandOver.Message.init)
      for (index, crossing) in zip(wire.messages.indices, crossings) { wire.messages[index].mark = crossing.mark.wire }
    case .receipt(let timestamp, let source, let destination):
      wire.setAddresses(source, destination)
      wire.timestamp = timestamp.millis
      wire.isReceipt = true
      if let crossing = crossings.first { wire.mark = crossing.mark.wire }
    }
    return wire
  }

  /// `PUT /v1/federation/batch` (docs/federation-wire.md, "Batches").
  /// - Parameter crossings: of each of `batch`, or none at all.
  static func request(
    for batch: [HandOver], _ terms: BatchTerms = .none, crossings: [[Crossing]] = []
  ) throws(PeerFailure) -> PeerRequest {
    var message = Relay_Batch()
    message.inOrder = terms.isInOrder
    message.waited = terms.hasWaited
    message.handOvers = batch.indices.map { batch[$0].wire(crossings.isEmpty ? [] : crossings[$0]) }
    do {
      var request = PeerRequest.put("/v1/federation/batch", try message.serializedBytes() as [UInt8])
      request.contentType = "application/x-protobuf"
      request.isBatch = true
      request.answerBytesMax = batchAnswerBytesMax
      if batch.count == 1, let id = batch[0].requestID { request.id = id }
      return request
    } catch {
      // Nothing in it is required, so nothing can be missing.
      throw .unreadable
    }
  }

  /// A few device lists are long; most answers have two bytes.
  private static let batchAnswerBytesMax = 1 << 20
}

extension CrossingMark {
  fileprivate var wire: UInt64 { UInt64(bitPattern: bits) }
}

extension Relay_HandOver {
  fileprivate mutating func setAddresses(_ from: DeviceAddress, _ to: AccountNumber) {
    source = from.account.digits
    sourceDevice = UInt32(from.device.value)
    destination = to.digits
  }
}

extension HandOverAnswer {
  /// To a request of its own.
  init(_ answer: PeerAnswer) {
    status = answer.status
    retryAfterSeconds = answer.retryAfterSeconds
    isSourceRefused = status == 403 && answer.problemKind == .sourceRefused
    guard status == 409 || status == 410 else { return }
    do throws(JSONError) {
      devices = try Problem.Devices.decode(answer.body.readableBytesUInt8Span.bytes, isStale: status == 410)
    } catch {
      // Without the devices nobody can do better: whoever reads the answer sees that they are missing.
    }
  }

  /// To a batch of `count`. - Throws: `.unreadable` when it has not exactly one answer for each hand-over.
  static func read(_ answer: PeerAnswer, count: Int) throws(PeerFailure) -> [HandOverAnswer] {
    let bytes = Array(answer.body.readableBytesView)
    guard answerCount(bytes) == count else { throw .unreadable }
    do {
      let message = try Relay_BatchAnswer(serializedBytes: bytes)
      guard message.answers.count == count else { throw PeerFailure.unreadable }
      return message.answers.map(HandOverAnswer.init)
    } catch {
      throw .unreadable
    }
  }

  /// The answers that the bytes would make, counted without making them: two bytes become fifty of memory.
  /// - Returns: nil when the bytes are no protobuf.
  private static func answerCount(_ bytes: [UInt8]) -> Int? {
    var count = 0
    var message = ProtobufFields(bytes[...])
    while let field = message.next() {
      if field.number == 1, field.content != nil { count += 1 }
    }
    return message.isWhole ? count : nil
  }

  private init(_ answer: Relay_BatchAnswer.Answer) {
    status = Int(answer.status)
    retryAfterSeconds = answer.retryAfterSeconds == 0 ? nil : Int(answer.retryAfterSeconds)
    // A 403 about this relay comes as the answer to the whole batch.
    isSourceRefused = answer.status == 403
    switch answer.status {
    case 409:
      if let missing = Self.devices(answer.missingDevices), let extra = Self.devices(answer.extraDevices) {
        devices = .mismatched(missing: missing, extra: extra)
      }
    case 410: devices = Self.devices(answer.staleDevices).map { .stale($0) }
    default: devices = nil
    }
  }

  /// - Returns: nil when one of them is none, and for more than any account has.
  private static func devices(_ values: [UInt32]) -> [DeviceID]? {
    guard values.count <= WireLimits.messagesPerBundleMax else { return nil }
    let devices = values.compactMap { DeviceID(Int64($0)) }
    return devices.count == values.count ? devices : nil
  }
}

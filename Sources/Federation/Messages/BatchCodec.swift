import RelayCore
import RelayHTTP
import SwiftProtobuf
import WireMessages

/// The hand-overs that a peer sends in one request.
struct ReceivedBatch {
  /// A hand-over, or what the request for it alone would be refused with, for each of the batch, in order.
  let handOvers: [Result<HandOver, Problem>]
  /// The marks of each hand-over, as `HandOverIntake.accept` takes them.
  let marks: [[CrossingMark]]
  let terms: BatchTerms
}

/// Reads a batch of hand-overs, and writes its answer (docs/federation-wire.md, "Batches").
enum BatchCodec {
  static let mediaType = "application/x-protobuf"
  /// The hand-overs' bytes, with room for what stands around them.
  static let bodyBytesMax = WireLimits.batchBytesMax + (1 << 20)

  /// - Throws: `.malformedBody`; `.bodyTooLarge` for too many, before anything is made of them.
  static func decode(_ bytes: [UInt8]) throws(Problem) -> ReceivedBatch {
    guard let size = BatchSize(bytes) else { throw Problem(.malformedBody) }
    guard size.handOvers <= WireLimits.handOversPerBatchMax,
      size.messages <= WireLimits.handOversPerBatchMax * WireLimits.messagesPerBundleMax
    else { throw Problem(.bodyTooLarge) }
    let batch: Relay_Batch
    do {
      batch = try Relay_Batch(serializedBytes: bytes)
    } catch {
      throw Problem(.malformedBody)
    }
    let handOvers = batch.handOvers.map { wire in
      Result { () throws(Problem) in try HandOver(wire) }
    }
    return ReceivedBatch(
      handOvers: handOvers, marks: batch.handOvers.map(\.marks),
      terms: BatchTerms(isInOrder: batch.inOrder, hasWaited: batch.waited))
  }

  /// - Parameter refusals: nil for what was accepted; in the order of the batch.
  static func encode(_ refusals: [Problem?]) throws(Problem) -> [UInt8] {
    var answer = Relay_BatchAnswer()
    answer.answers = refusals.map { $0.map(Relay_BatchAnswer.Answer.init) ?? .accepted }
    do {
      return try answer.serializedBytes()
    } catch {
      throw Problem(.internalError, reason: "a batch's answer cannot be written")
    }
  }
}

extension HandOver {
  /// - Throws: what the request for it alone would be refused with.
  fileprivate init(_ wire: Relay_HandOver) throws(Problem) {
    guard let account = AccountNumber(e164: "+\(wire.source)"), let device = DeviceID(Int64(wire.sourceDevice)),
      let destination = AccountNumber(e164: "+\(wire.destination)")
    else { throw Problem(.notFound) }
    let source = DeviceAddress(account, device)
    if wire.isReceipt {
      guard wire.hasTimestamp else { throw Problem(.notFound) }
      self = .receipt(Timestamp(millis: wire.timestamp), source: source, destination: destination)
      return
    }
    guard wire.messages.count <= WireLimits.messagesPerBundleMax else { throw Problem(.bodyTooLarge) }
    var messages: [SubmittedMessage] = []
    messages.reserveCapacity(wire.messages.count)
    for message in wire.messages { messages.append(try SubmittedMessage(message)) }
    let submission = Submission(
      destination: destination, messages: messages,
      timestamp: wire.timestamp == 0 ? nil : Timestamp(millis: wire.timestamp),
      coverage: wire.coversMasterOnly ? .masterDevice : .activeDevices, request: RequestID(bits: wire.request))
    self = .message(submission, source: source)
  }
}

extension Relay_HandOver {
  /// None unless all that it holds are marked.
  fileprivate var marks: [CrossingMark] {
    let words = isReceipt ? [mark] : messages.map(\.mark)
    return words.contains(0) ? [] : words.map { CrossingMark(bits: Int64(bitPattern: $0)) }
  }
}

extension Relay_BatchAnswer.Answer {
  fileprivate static var accepted: Self {
    var answer = Self()
    answer.status = 200
    return answer
  }

  fileprivate init(_ problem: Problem) {
    self.init()
    status = UInt32(problem.kind.status)
    retryAfterSeconds = UInt32(clamping: problem.retryAfterSeconds ?? 0)
    switch problem.devices {
    case .mismatched(let missing, let extra):
      missingDevices = missing.map(\.wire)
      extraDevices = extra.map(\.wire)
    case .stale(let stale): staleDevices = stale.map(\.wire)
    case .full, nil: break
    }
  }
}

extension DeviceID {
  /// Always above 0.
  fileprivate var wire: UInt32 { UInt32(value) }
}

/// How much a serialised batch would make: counted without making anything, since 2 bytes of it can become a hundred of
/// memory.
struct BatchSize: Equatable {
  private(set) var handOvers = 0
  private(set) var messages = 0

  /// - Returns: nil when the bytes are no protobuf.
  init?(_ bytes: [UInt8]) {
    var batch = ProtobufFields(bytes[...])
    while let field = batch.next() {
      guard field.number == 1, let content = field.content else { continue }
      handOvers += 1
      var handOver = ProtobufFields(content)
      while let field = handOver.next() {
        if field.number == 7 { messages += 1 }
      }
      guard handOver.isWhole else { return nil }
    }
    guard batch.isWhole else { return nil }
  }
}

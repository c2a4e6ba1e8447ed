import NIOCore
import RelayCore
import RelayHTTP
import SwiftProtobuf
import WireMessages

/// Draws of prekeys that travel together, and their answers (docs/federation-wire.md, "Draws together").
enum KeyBatchCodec {
  static let path = "/v1/federation/keys"
  static let mediaType = "application/x-protobuf"
  static let drawsMax = 128
  /// A draw has some 30 bytes.
  static let bodyBytesMax = 16 << 10
  /// A draw is answered with less than 1 KiB as a rule.
  static let answerBytesMax = 4 << 20

  // MARK: - Asking

  static func request(for draws: [KeyDraw]) throws(PeerFailure) -> PeerRequest {
    var message = Relay_KeyBatch()
    message.draws = draws.map { draw in
      var wire = Relay_KeyBatch.Draw()
      wire.account = draw.account.digits
      if case .one(let device) = draw.devices { wire.device = UInt32(device.value) }
      wire.isSigned = draw.version == .two
      wire.request = draw.request?.bits ?? 0
      return wire
    }
    do {
      var request = PeerRequest.put(path, try message.serializedBytes() as [UInt8])
      request.contentType = mediaType
      request.isBatch = true
      request.answerBytesMax = answerBytesMax
      if draws.count == 1, let id = draws[0].request { request.id = id }
      return request
    } catch {
      // Nothing in it is required, so nothing can be missing.
      throw .unreadable
    }
  }

  /// - Returns: an answer for each of `draws`, in their order; `.unreadable` where it is none.
  /// - Throws: `.unreadable` when there is not exactly one answer for each.
  static func read(
    _ answer: PeerAnswer, to draws: [KeyDraw]
  ) throws(PeerFailure) -> [Result<KeyDrawAnswer, PeerFailure>] {
    let bytes = Array(answer.body.readableBytesView)
    // Counted before anything is made of them: two bytes can become a hundred of memory.
    guard let counts = counts(bytes), counts.entries == draws.count,
      counts.parts <= draws.count * WireLimits.messagesPerBundleMax
    else { throw .unreadable }
    let message: Relay_KeyBatchAnswer
    do {
      message = try Relay_KeyBatchAnswer(serializedBytes: bytes)
    } catch {
      throw .unreadable
    }
    guard message.answers.count == draws.count else { throw .unreadable }
    return zip(message.answers, draws).map { answer, draw in
      Result { () throws(PeerFailure) in try KeyDrawAnswer(answer, version: draw.version) }
    }
  }

  // MARK: - Answering

  /// - Returns: for each draw of the batch, in order, what is asked for, or what the request for it alone would be
  ///   refused with.
  /// - Throws: `.malformedBody`; `.bodyTooLarge` for too many, before anything is made of them.
  static func decode(_ bytes: [UInt8]) throws(Problem) -> [Result<KeyDraw, Problem>] {
    guard let counts = counts(bytes) else { throw Problem(.malformedBody) }
    guard counts.entries <= drawsMax else { throw Problem(.bodyTooLarge) }
    let batch: Relay_KeyBatch
    do {
      batch = try Relay_KeyBatch(serializedBytes: bytes)
    } catch {
      throw Problem(.malformedBody)
    }
    return batch.draws.map { wire in Result { () throws(Problem) in try KeyDraw(wire) } }
  }

  /// - Parameter answers: in the order of the batch. An entry that has no room is put off: 503, with
  ///   `Retry-After`.
  static func encode(_ answers: [Result<[DrawnPreKey], Problem>]) throws(Problem) -> [UInt8] {
    var message = Relay_KeyBatchAnswer()
    var room = answerBytesMax - entryBytesMax * answers.count
    message.answers = answers.map { answer in
      switch answer {
      case .success(let drawn):
        room -= drawn.reduce(0) { $0 + $1.wireBytesMax }
        guard room >= 0 else { return .init(noRoom) }
        return .init(drawn)
      case .failure(let problem): return .init(problem)
      }
    }
    do {
      return try message.serializedBytes()
    } catch {
      throw Problem(.internalError, reason: "a batch's answer cannot be written")
    }
  }

  /// It comes again.
  private static let noRoom = Problem(.unavailable, retryAfter: .seconds(1))
  /// An answer's own fields, without keys.
  private static let entryBytesMax = 32

  /// How many entries serialised draws or answers would make, and how many parts of these: counted without making
  /// anything.
  /// - Returns: nil when the bytes are no protobuf.
  private static func counts(_ bytes: [UInt8]) -> (entries: Int, parts: Int)? {
    var (entries, parts) = (0, 0)
    var message = ProtobufFields(bytes[...])
    while let field = message.next() {
      guard field.number == 1, let content = field.content else { continue }
      entries += 1
      var entry = ProtobufFields(content)
      while let field = entry.next() {
        if field.number == 4, field.content != nil { parts += 1 }
      }
      guard entry.isWhole else { return nil }
    }
    return message.isWhole ? (entries, parts) : nil
  }
}

extension KeyDraw {
  /// - Throws: what the request for it alone would be refused with.
  fileprivate init(_ wire: Relay_KeyBatch.Draw) throws(Problem) {
    guard let account = AccountNumber(e164: "+\(wire.account)") else { throw Problem(.notFound) }
    self.account = account
    version = wire.isSigned ? .two : .one
    request = RequestID(bits: wire.request)
    if wire.device == 0 {
      devices = .all
    } else {
      guard let device = DeviceID(Int64(wire.device)) else { throw Problem(.notFound) }
      devices = .one(device)
    }
  }
}

extension KeyDrawAnswer {
  fileprivate init(_ wire: Relay_KeyBatchAnswer.Answer, version: PreKeyVersion) throws(PeerFailure) {
    guard wire.status == 200 else {
      self = .refused(
        HandOverAnswer(
          status: Int(wire.status),
          retryAfterSeconds: wire.retryAfterSeconds == 0 ? nil : Int(wire.retryAfterSeconds)))
      return
    }
    guard PreKeyCodec.isKeyText(wire.identityKey), !wire.devices.isEmpty,
      wire.devices.count <= WireLimits.messagesPerBundleMax
    else { throw .unreadable }
    var drawn: [DrawnPreKey] = []
    drawn.reserveCapacity(wire.devices.count)
    for device in wire.devices { drawn.append(try DrawnPreKey(device, identityKey: wire.identityKey, version)) }
    self = .drawn(drawn)
  }
}

extension DrawnPreKey {
  fileprivate init(
    _ wire: Relay_KeyBatchAnswer.Device, identityKey: String, _ version: PreKeyVersion
  ) throws(PeerFailure) {
    guard let device = DeviceID(Int64(wire.device)), let registrationID = Int32(exactly: wire.registrationID) else {
      throw .unreadable
    }
    var preKey: PreKey?
    if wire.hasPreKey {
      guard wire.preKey.id >= 0, PreKeyCodec.isKeyText(wire.preKey.publicKey) else { throw .unreadable }
      preKey = PreKey(keyID: wire.preKey.id, publicKey: wire.preKey.publicKey)
    }
    var signed: SignedPreKey?
    if wire.hasSignedPreKey, version == .two {
      let key = wire.signedPreKey
      guard key.id >= 0, PreKeyCodec.isKeyText(key.publicKey), PreKeyCodec.isKeyText(key.signature) else {
        throw .unreadable
      }
      signed = SignedPreKey(keyID: key.id, publicKey: key.publicKey, signature: key.signature)
    }
    guard preKey != nil || signed != nil else { throw .unreadable }
    self.init(
      device: device, registrationID: registrationID, identityKey: identityKey, preKey: preKey, signedPreKey: signed)
  }

  /// An upper bound of the bytes that it takes in an answer: its texts, and numbers and lengths.
  fileprivate var wireBytesMax: Int {
    let texts = [
      identityKey, preKey?.publicKey, signedPreKey?.publicKey, signedPreKey?.signature,
    ]
    return texts.reduce(96) { $0 + ($1?.utf8.count ?? 0) }
  }
}

extension Relay_KeyBatchAnswer.Answer {
  /// - Parameter drawn: of one account; not empty.
  fileprivate init(_ drawn: [DrawnPreKey]) {
    self.init()
    status = 200
    identityKey = drawn.first?.identityKey ?? ""
    devices = drawn.map(Relay_KeyBatchAnswer.Device.init)
  }

  fileprivate init(_ problem: Problem) {
    self.init()
    status = UInt32(problem.kind.status)
    retryAfterSeconds = UInt32(clamping: problem.retryAfterSeconds ?? 0)
  }
}

extension Relay_KeyBatchAnswer.Device {
  fileprivate init(_ drawn: DrawnPreKey) {
    self.init()
    device = UInt32(drawn.device.value)
    registrationID = Int64(drawn.registrationID)
    if let key = drawn.preKey {
      preKey.id = key.keyID
      preKey.publicKey = key.publicKey
    }
    if let key = drawn.signedPreKey {
      signedPreKey.id = key.keyID
      signedPreKey.publicKey = key.publicKey
      signedPreKey.signature = key.signature
    }
  }
}

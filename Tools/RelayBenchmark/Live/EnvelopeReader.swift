import Crypto
import CryptoExtras
import Foundation
import RelayClient
import RelayCore

/// Reads the envelopes that are delivered to one device, encrypted under its signaling key (reference 2.4).
///
/// The reader shares the machine with the server that it measures. So of most envelopes it decrypts only the two
/// blocks with the sender and the time. The first and every 16th after it is opened as a whole: its code is checked
/// and the rest decrypted.
struct EnvelopeReader {
  struct Heading: Equatable {
    let isReceipt: Bool
    /// `+` and digits.
    let source: String
    let timestamp: Int64
  }

  private static let sampleEach = 16
  private static let (ivStart, ciphertextStart) = (1, 17)
  private static let headingBytes = 32
  /// Reference 2.8.
  private static let receiptType: UInt64 = 5

  private let key: SignalingKey
  private let encryption: SymmetricKey
  private var count = 0
  /// How many were opened as a whole.
  private(set) var openedCount = 0

  /// - Parameter text: the key as it was uploaded.
  init(signalingKey text: String) throws {
    key = try SignalingKey(text)
    guard let bytes = Base64.decode(text) else { throw BenchmarkFailure("a signaling key is no base64") }
    encryption = SymmetricKey(data: bytes.prefix(32))
  }

  /// - Throws: when it is not what the relay has to deliver.
  mutating func read(_ envelope: Data) throws -> Heading {
    let bytes = Array(envelope)
    let heading = try heading(bytes)
    if count.isMultiple(of: Self.sampleEach) {
      let message = try key.open(bytes)
      let whole = Heading(
        isReceipt: message.type == Int(Self.receiptType), source: message.source.number.e164,
        timestamp: message.timestamp)
      guard whole == heading, heading.isReceipt == message.body.isEmpty else {
        throw BenchmarkFailure("a delivery is not what was sent")
      }
      openedCount += 1
    }
    count += 1
    return heading
  }

  private func heading(_ envelope: [UInt8]) throws -> Heading {
    guard envelope.count >= Self.ciphertextStart + Self.headingBytes, envelope[0] == 1 else {
      throw BenchmarkFailure("a delivery is no envelope")
    }
    let start = try AES._CBC.decrypt(
      envelope[Self.ciphertextStart..<Self.ciphertextStart + Self.headingBytes], using: encryption,
      iv: AES._CBC.IV(ivBytes: envelope[Self.ivStart..<Self.ciphertextStart]), noPadding: true)
    var fields = FieldReader(bytes: Array(start))
    var (type, source): (UInt64?, String?)
    // Written in the order of their numbers (reference 2.9): type, source, timestamp.
    while let field = fields.next() {
      switch (field.number, field.value) {
      case (1, .number(let value)): type = value
      case (2, .bytes(let value)): source = String(decoding: value, as: UTF8.self)
      case (5, .number(let value)):
        guard let type, let source, let timestamp = Int64(exactly: value) else { break }
        return Heading(isReceipt: type == Self.receiptType, source: source, timestamp: timestamp)
      default: break
      }
    }
    throw BenchmarkFailure("a delivery does not begin with its source and its timestamp")
  }
}

/// The beginning of a protobuf message, field by field.
private struct FieldReader {
  enum Value {
    case number(UInt64)
    case bytes(ArraySlice<UInt8>)
  }

  private let bytes: [UInt8]
  private var offset = 0

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// - Returns: nil at the end of what is there, and for kinds of fields that a push signal has none of.
  mutating func next() -> (number: UInt64, value: Value)? {
    guard let tag = varint() else { return nil }
    switch tag & 7 {
    case 0: return varint().map { (tag >> 3, .number($0)) }
    case 2:
      guard let count = varint(), count <= bytes.count - offset else { return nil }
      defer { offset += Int(count) }
      return (tag >> 3, .bytes(bytes[offset..<offset + Int(count)]))
    default: return nil
    }
  }

  private mutating func varint() -> UInt64? {
    var value: UInt64 = 0
    for place in 0..<10 where offset < bytes.count {
      let byte = bytes[offset]
      offset += 1
      value |= UInt64(byte & 0x7F) << UInt64(7 * place)
      if byte & 0x80 == 0 { return value }
    }
    return nil
  }
}

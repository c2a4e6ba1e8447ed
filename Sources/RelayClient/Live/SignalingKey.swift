// The encryption of deliveries, as a device opens it (reference 2.4).

import Crypto
import CryptoExtras
import Foundation
import RelayCore
import SwiftProtobuf
import WireMessages

/// A device's signaling key: the relay encrypts and authenticates live deliveries to the device under it
/// (reference 2.4).
///
/// It hides from the network who writes to whom. It hides nothing from the relay, which has the key as well. Printing
/// or reflecting a value shows nothing of it.
public struct SignalingKey: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  static let byteCount = 52
  private static let version: UInt8 = 1
  private static let ivBytes = 16
  private static let macBytes = 10
  /// One block of ciphertext at least.
  private static let envelopeBytesMin = 1 + ivBytes + 16 + macBytes

  private let encryption: SymmetricKey
  private let authentication: SymmetricKey

  /// Reads a key in the form in which the device registered it.
  /// - Parameter text: ``DeviceAttributes/signalingKey``: base64 of 52 bytes or more. Bytes behind the 52nd are not
  ///   used.
  /// - Throws: `.invalidArgument` for anything else.
  public init(_ text: String) throws(RelayClientError) {
    guard let bytes = Base64.decode(text), bytes.count >= Self.byteCount else {
      throw .invalidArgument("a signaling key is the base64 of 52 bytes")
    }
    encryption = SymmetricKey(data: bytes[..<32])
    authentication = SymmetricKey(data: bytes[32..<Self.byteCount])
  }

  /// Opens what a relay delivered.
  /// - Throws: `.notAuthentic` before anything was decrypted, `.malformed` for what is no envelope inside.
  package func open(_ envelope: [UInt8]) throws(DeliveryError) -> IncomingMessage {
    let plaintext = try decrypt(envelope)
    do {
      return try IncomingMessage(Textsecure_PushSignal(serializedBytes: plaintext))
    } catch {
      throw .malformed
    }
  }

  /// version(1) = 0x01, iv(16), AES-256-CBC with PKCS#7 padding, the first 10 bytes of HMAC-SHA256 of all before
  /// them.
  package func decrypt(_ envelope: [UInt8]) throws(DeliveryError) -> [UInt8] {
    guard envelope.count >= Self.envelopeBytesMin, envelope[0] == Self.version else { throw .notAuthentic }
    let (authenticated, mac) = (envelope.dropLast(Self.macBytes), Array(envelope.suffix(Self.macBytes)))
    let expected = HMAC<SHA256>.authenticationCode(for: authenticated, using: authentication)
    guard constantTimeEquals(Array(expected.prefix(Self.macBytes)), mac) else { throw .notAuthentic }
    do {
      let iv = try AES._CBC.IV(ivBytes: authenticated[1...Self.ivBytes])
      return Array(try AES._CBC.decrypt(authenticated.dropFirst(1 + Self.ivBytes), using: encryption, iv: iv))
    } catch {
      throw .malformed  // The holder of the key made a ciphertext that is none.
    }
  }

  /// Always `<signaling key>`.
  public var description: String { "<signaling key>" }
  /// Always `<signaling key>`.
  public var debugDescription: String { description }
  /// A mirror without children, so that `dump` shows no secret.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The reason why a delivery could not be opened. The connection goes on, and other deliveries come.
public enum DeliveryError: Error, Sendable, Hashable {
  /// The delivery was encrypted under another key than the session's, or changed on the way.
  case notAuthentic
  /// The delivery was encrypted under the session's key, and its content is not a message (reference 2.9).
  case malformed
}

extension IncomingMessage {
  /// - Throws: `.malformed` without a source that is a number.
  fileprivate init(_ signal: Textsecure_PushSignal) throws(DeliveryError) {
    guard let number = PhoneNumber(signal.source), let timestamp = Int64(exactly: signal.timestamp) else {
      throw .malformed
    }
    self.init(
      type: Int(signal.type),
      source: Correspondent(number, deviceID: signal.hasSourceDevice ? Int(signal.sourceDevice) : 1),
      relay: signal.relay.isEmpty ? nil : signal.relay, timestamp: timestamp, body: Array(signal.message),
      content: Array(signal.content))
  }
}

// What a relay encrypts deliveries with, and how a device opens them (reference 2.4).

import Crypto
import CryptoExtras
import Foundation
import RelayCore
import SwiftProtobuf
import WireMessages

/// A device's signaling key: what the relay delivers to it is encrypted and authenticated under it.
///
/// It hides from the network who writes to whom, not from the relay, which has it as well. Printing one shows nothing of
/// it.
public struct SignalingKey: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  static let byteCount = 52
  private static let version: UInt8 = 1
  private static let ivBytes = 16
  private static let macBytes = 10
  /// One block of ciphertext at least.
  private static let envelopeBytesMin = 1 + ivBytes + 16 + macBytes

  private let encryption: SymmetricKey
  private let authentication: SymmetricKey

  /// - Parameter text: as the device registered it: 52 bytes or more in base64; what is behind the 52nd is not used.
  /// - Throws: `.invalidArgument`.
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

  /// version(1) = 0x01, iv(16), AES-256-CBC with PKCS#7 padding, the first 10 bytes of HMAC-SHA256 of all before them.
  package func decrypt(_ envelope: [UInt8]) throws(DeliveryError) -> [UInt8] {
    guard envelope.count >= Self.envelopeBytesMin, envelope[0] == Self.version else { throw .notAuthentic }
    let (authenticated, mac) = (envelope.dropLast(Self.macBytes), Array(envelope.suffix(Self.macBytes)))
    let expected = HMAC<SHA256>.authenticationCode(for: authenticated, using: authentication)
    guard constantTimeEquals(Array(expected.prefix(Self.macBytes)), mac) else { throw .notAuthentic }
    do {
      let iv = try AES._CBC.IV(ivBytes: authenticated[1...Self.ivBytes])
      return Array(try AES._CBC.decrypt(authenticated.dropFirst(1 + Self.ivBytes), using: encryption, iv: iv))
    } catch {
      throw .malformed  // Whoever has the key made a ciphertext that is none.
    }
  }

  public var description: String { "<signaling key>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why a delivery could not be opened. It does not end the connection, and other deliveries come.
public enum DeliveryError: Error, Sendable, Hashable {
  /// Not encrypted under this device's signaling key, or changed on the way.
  case notAuthentic
  /// What was encrypted is no message.
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

// Numbers, devices and contact tokens, in the client's terms.

import Crypto
import RelayCore

/// A subscriber's number: `+` and 10 to 15 digits, or nine digits in four countries (reference 1.4).
///
/// Printing a value shows `<number>`, so that it stays out of logs; `e164` is its text.
public struct PhoneNumber: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible {
  let account: AccountNumber

  /// Reads a number in its textual form. The result is nil for a text that no relay takes.
  ///
  /// The first digit is not 0, and there are 10 to 15 digits, or nine if they begin with 240, 298, 687 or 689
  /// (reference 1.4).
  /// - Parameter e164: `+` and digits, without spaces or hyphens.
  public init?(_ e164: some StringProtocol) {
    guard let account = AccountNumber(e164: e164) else { return nil }
    self.account = account
  }

  /// The number as the wire has it: `+` and digits. Keep it out of logs.
  public var e164: String { account.e164 }
  /// Always `<number>`.
  public var description: String { "<number>" }
  /// Always `<number>`.
  public var debugDescription: String { description }
}

/// One device of a number: one end of a conversation.
public struct Correspondent: Sendable, Hashable {
  /// The number of the device's account.
  public let number: PhoneNumber
  /// The device's id within its account; 1 is the device that registered the number (reference 0.3).
  public let deviceID: Int

  /// Names a device. Nothing is checked.
  /// - Parameters:
  ///   - number: the number of the device's account.
  ///   - deviceID: the device's id within its account.
  public init(_ number: PhoneNumber, deviceID: Int = 1) {
    self.number = number
    self.deviceID = deviceID
  }
}

/// Makes contact tokens, which a client sends in place of its contacts' numbers (reference 2.1).
///
/// A token is a plain hash, and there are few numbers: anyone can find the number of a token by trying all of them.
/// So a token keeps a number out of sight, and does not keep it secret.
/// `RelayClient.lookUp(_:telling:contacts:)` sends none, where the relay offers that.
public enum ContactTokens {
  /// Computes the token of a number: the first 10 bytes of the SHA-1 of its text, the `+` included.
  /// - Parameter number: the contact's number.
  /// - Returns: 14 characters of base64, in the standard alphabet, without padding.
  public static func token(for number: PhoneNumber) -> String {
    let hash = Array(Insecure.SHA1.hash(data: Array(number.e164.utf8)))
    return Base64.encode(hash.prefix(ContactToken.byteCount), padded: false)
  }
}

// Who talks to whom, in the client's terms.

import Crypto
import RelayCore

/// A subscriber's number: `+` and 10 to 15 digits (nine for the few countries that have six-digit numbers).
///
/// Printing one shows `<number>`, so that it stays out of logs; `e164` is its text.
public struct PhoneNumber: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible {
  let account: AccountNumber

  /// - Returns: nil unless `e164` is a number that a relay takes.
  public init?(_ e164: some StringProtocol) {
    guard let account = AccountNumber(e164: e164) else { return nil }
    self.account = account
  }

  /// `+` and digits, as the wire wants it.
  public var e164: String { account.e164 }
  public var description: String { "<number>" }
  public var debugDescription: String { description }
}

/// One device of a number: one end of a conversation.
public struct Correspondent: Sendable, Hashable {
  public let number: PhoneNumber
  /// 1 is the device that registered the number.
  public let deviceID: Int

  public init(_ number: PhoneNumber, deviceID: Int = 1) {
    self.number = number
    self.deviceID = deviceID
  }
}

/// Contact tokens: what a client sends in place of its contacts' numbers.
///
/// A token is a plain hash of a small space: whoever holds one can find its number by trying them all. It keeps
/// numbers out of sight, not secret.
public enum ContactTokens {
  /// The token of `number`: 14 characters, the base64 of the first 10 bytes of SHA-1, without padding.
  public static func token(for number: PhoneNumber) -> String {
    let hash = Array(Insecure.SHA1.hash(data: Array(number.e164.utf8)))
    return Base64.encode(hash.prefix(ContactToken.byteCount), padded: false)
  }
}

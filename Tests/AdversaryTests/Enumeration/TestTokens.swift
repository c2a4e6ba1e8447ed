import RelayClient
import RelayCore
import Testing

/// The contact tokens of numbers, as attacks ask for them.
enum TestTokens {
  /// 14 characters of the standard alphabet.
  static func token(of number: String) throws -> String {
    ContactTokens.token(for: try #require(PhoneNumber(number)))
  }

  static func urlSafe(_ number: String) throws -> String {
    String(try token(of: number).map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  static func contactToken(of number: String) throws -> ContactToken {
    let bytes = try #require(Base64.decode(try token(of: number)))
    return try #require(ContactToken(bytes: bytes))
  }
}

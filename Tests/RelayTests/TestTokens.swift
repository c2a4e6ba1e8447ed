import RelayClient
import RelayCore
import Testing

/// Contact tokens in the spellings that clients use.
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

  /// A number whose token `isWanted`.
  static func number(where isWanted: (String) -> Bool) throws -> String {
    for offset in 0..<1_000_000 {
      let number = "+\(15_559_000_000 + offset)"
      if isWanted(try token(of: number)) { return number }
    }
    throw NotFound()
  }
  private struct NotFound: Error {}
}

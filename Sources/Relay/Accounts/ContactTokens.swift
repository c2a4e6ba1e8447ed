import Crypto
package import RelayCore

/// Numbers to contact tokens (reference 2.1). SHA-1 is the wire's choice; docs/security.md says what that means.
package enum ContactTokens {
  package static func token(of number: AccountNumber) -> ContactToken {
    let digest = Insecure.SHA1.hash(data: Array(number.e164.utf8))
    // A SHA-1 digest has 20 bytes, so its first 10 always make a token.
    return ContactToken(firstBytesOf: Array(digest))
  }
}

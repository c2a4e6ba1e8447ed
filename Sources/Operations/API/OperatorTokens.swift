package import RelayCore

/// The tokens that open the operator API: to look, and to change.
package struct OperatorTokens: Sendable, Equatable {
  package let read: [OperatorToken]
  /// They may look as well.
  package let change: [OperatorToken]

  package init(read: [OperatorToken], change: [OperatorToken]) {
    self.read = read
    self.change = change
  }

  var isEmpty: Bool { read.isEmpty && change.isEmpty }

  /// Compares with every token, in a time that tells nothing of where they differ.
  /// - Returns: nil for what is none of them.
  func token(of text: String) -> (token: OperatorToken, mayChange: Bool)? {
    let given = Array(text.utf8)
    var found: (token: OperatorToken, mayChange: Bool)?
    for (tokens, mayChange) in [(read, false), (change, true)] {
      for token in tokens where constantTimeEquals(Array(token.token.value.utf8), given) { found = (token, mayChange) }
    }
    return found
  }

  func has(_ token: OperatorToken) -> Bool { read.contains(token) || change.contains(token) }
}

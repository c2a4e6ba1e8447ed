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
  func holder(of text: String) -> (name: String, mayChange: Bool)? {
    let given = Array(text.utf8)
    var found: (name: String, mayChange: Bool)?
    for (tokens, mayChange) in [(read, false), (change, true)] {
      for token in tokens where constantTimeEquals(Array(token.token.value.utf8), given) {
        found = (token.name, mayChange)
      }
    }
    return found
  }
}

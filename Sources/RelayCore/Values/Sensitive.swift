// Sensitive values: numbers, tokens, keys, passwords and bodies have no textual form by accident.

/// A value whose description and reflection show only its kind.
///
/// Interpolating one into a log line, an error or a metric label prints `<kind>`; whoever needs the
/// wire text asks for it by name (`e164`, `base64`, ...).
package protocol Sensitive: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The word that stands for every value of the type, without the angle brackets.
  static var kind: StaticString { get }
}

extension Sensitive {
  package var description: String { "<\(Self.kind)>" }
  package var debugDescription: String { "<\(Self.kind)>" }
  package var customMirror: Mirror { Mirror(self, children: []) }
}

/// A secret text: a password, a key, a one-time code.
package struct Secret: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "secret"
  /// The secret itself. Reading it is a deliberate act: never hand it to a logger.
  package let value: String
  package init(_ value: String) { self.value = value }
}

/// Secret bytes: a key of the operator's.
package struct SecretBytes: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "secret bytes"
  package let bytes: [UInt8]
  package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// Compares two byte strings in time that depends on their lengths alone.
package func constantTimeEquals(_ a: [UInt8], _ b: [UInt8]) -> Bool {
  guard a.count == b.count else { return false }
  var difference: UInt8 = 0
  for index in a.indices { difference |= a[index] ^ b[index] }
  return difference == 0
}

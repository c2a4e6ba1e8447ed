/// A token of the operator API, with the name under which the audit log knows its holder.
package struct OperatorToken: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "operator token"
  package let name: String
  package let token: Secret
  package init(name: String, token: Secret) {
    self.name = name
    self.token = token
  }
}

/// How long the store keeps what `MessageStore.maintain` removes, as far as the operator chooses it.
package struct RetentionTerms: Sendable, Equatable {
  /// From a message's arrival, if nobody fetches it.
  package var messages: Duration

  package init(messages: Duration = .seconds(30 * 86_400)) { self.messages = messages }
}

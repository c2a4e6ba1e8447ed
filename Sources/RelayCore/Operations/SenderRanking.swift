/// Which accounts send most, for operators. Implemented by Relay, used by Operations.
package protocol SenderRanking: Sendable {
  /// - Returns: the accounts that sent most, the first the most, at most `count`.
  func ranking(of count: Int) -> RankedSenders
}

package struct RankedSenders: Sendable {
  /// How long the counts were made.
  package let seconds: Double
  /// Messages, one for each device that they were for; a count may be too high where very many accounts send.
  package let senders: [(account: AccountNumber, messages: Int)]
  package init(seconds: Double, senders: [(account: AccountNumber, messages: Int)]) {
    self.seconds = seconds
    self.senders = senders
  }
}

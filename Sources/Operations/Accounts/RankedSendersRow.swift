/// The accounts that sent most through one process.
package struct RankedSendersRow: Codable, Sendable {
  package struct Sender: Codable, Sendable {
    package let handle: String
    /// One for each device that they were for.
    package let messages: Int
  }
  /// How long the counts were made.
  package let seconds: Double
  /// The first sent most.
  package let senders: [Sender]
}

package import RelayCore

/// Answers the console's questions about the features: `RelayCommand` joins them.
///
/// Every call ends within seconds, `walk` within two minutes, and throws `StoreError` where the store does not answer.
package protocol ConsoleSources: Sendable {
  /// nil where federation is off.
  func identity() async -> ConsoleIdentity?
  /// By name.
  func peers() async throws -> [PeerDescription]
  /// The budgets that this relay has left at the peer, by the peer's word just now.
  /// - Throws: `ConsoleFault` if the peer does not tell.
  func budgets(at peer: RelayName) async throws -> [ConsoleBudget]
  /// Walks the way to the peer, as `relay peer test` does. - Returns: nil where there is no such peer.
  func walk(to peer: RelayName) async throws -> [ConsoleStep]?
  /// - Returns: false where there is no such peer.
  func suspend(_ peer: RelayName, because reason: String?) async throws -> Bool
  /// Ends a suspension. - Returns: false where there is no such peer.
  func resume(_ peer: RelayName) async throws -> Bool
  /// How much waits for each peer.
  func outbox() async throws -> [OutboxUsage]
  /// Lets everything that waits for the peer be tried at once. - Returns: how many messages that are.
  func retry(_ peer: RelayName) async throws -> Int
  /// The last attempts to wake the device, the newest first. - Returns: nil where there is no such device.
  func pushHistory(of device: DeviceAddress) async throws -> [ConsoleAttempt]?
  /// The findings of `relay doctor`.
  func findings() async -> [ConsoleFinding]
}

/// Our own certificates.
package struct ConsoleIdentity: Sendable {
  let words: String
  let leafExpires: Timestamp
  let authorityExpires: Timestamp
  package init(words: String, leafExpires: Timestamp, authorityExpires: Timestamp) {
    self.words = words
    self.leafExpires = leafExpires
    self.authorityExpires = authorityExpires
  }
}

/// The rest of a budget at a peer.
package struct ConsoleBudget: Sendable {
  let name: String
  let left: Int64
  let size: Int64
  let perMinute: Int64
  package init(name: String, left: Int64, size: Int64, perMinute: Int64) {
    self.name = name
    self.left = left
    self.size = size
    self.perMinute = perMinute
  }
}

/// A step of the way to a peer.
package struct ConsoleStep: Sendable {
  let step: String
  /// `ok`, `warn`, `fail`, `skip`.
  let outcome: String
  let text: String
  let remedy: String?
  let milliseconds: Double
  package init(step: String, outcome: String, text: String, remedy: String?, milliseconds: Double) {
    self.step = step
    self.outcome = outcome
    self.text = text
    self.remedy = remedy
    self.milliseconds = milliseconds
  }
}

/// One thing that the doctor found.
package struct ConsoleFinding: Sendable {
  let group: String
  let check: String
  /// `ok`, `warn`, `fail`, `skip`.
  let outcome: String
  let text: String
  let remedy: String?
  package init(group: String, check: String, outcome: String, text: String, remedy: String?) {
    self.group = group
    self.check = check
    self.outcome = outcome
    self.text = text
    self.remedy = remedy
  }
}

/// An attempt to wake a device, in the words of `relay push history`.
package struct ConsoleAttempt: Sendable {
  let asked: Timestamp
  let provider: String?
  let sent: String?
  let answer: String
  let milliseconds: Int64?
  let outcome: String
  /// The fault and its remedy.
  let fault: String?
  package init(
    asked: Timestamp, provider: String?, sent: String?, answer: String, milliseconds: Int64?, outcome: String,
    fault: String?
  ) {
    self.asked = asked
    self.provider = provider
    self.sent = sent
    self.answer = answer
    self.milliseconds = milliseconds
    self.outcome = outcome
    self.fault = fault
  }
}

/// Why something cannot be shown or done, in words for the operator.
package struct ConsoleFault: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

/// One thing that a server of this API does, and how to see it.
package struct Rule: Sendable {
  /// The section of the API's reference that it comes from, such as `1.6`.
  package let section: String
  /// One line in the present tense.
  package let text: String
  /// Since when clients rely on it.
  package let since: Generation
  /// Returns when the rule is kept. Throws `RuleFailure` when it is not, `RuleLimited` and `RuleSkipped` when that
  /// cannot be told.
  let run: @Sendable (Session) async throws -> Void

  init(
    _ section: String, _ text: String, _ since: Generation = .g1,
    run: @escaping @Sendable (Session) async throws -> Void
  ) {
    self.section = section
    self.text = text
    self.since = since
    self.run = run
  }
}

/// The generations of the API, by the clients that speak them (reference 0.1).
package enum Generation: String, Sendable {
  /// One device, Dec 2013.
  case g1 = "G1"
  /// Devices, registration ids, 409 and 410, Feb 2014.
  case g2 = "G2"
  /// Signed prekeys and receipts, Jul 2014.
  case g3 = "G3"
  /// Sync messages, fetching, device management, Feb 2015.
  case g4 = "G4"
  /// Additions of this project's relays, which disturb no client.
  case ours = "ours"
}

/// A part of the suite: its rules run one after the other, in this order.
package struct RuleArea: Sendable {
  package let name: String
  package let rules: [Rule]
  init(_ name: String, _ rules: [Rule]) {
    self.name = name
    self.rules = rules
  }
}

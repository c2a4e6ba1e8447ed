/// The cost of an oblivious look-up of contacts that were not asked for before.
struct ObliviousFigures: Sendable, Encodable {
  let contacts: Int
  /// CPU seconds of the relay, medians of the rounds.
  let serverSeconds: Double
  /// CPU seconds of this program.
  let clientSeconds: Double
  /// The bytes of the bodies in which they are evaluated.
  let sentBytes: Int
  let receivedBytes: Int
  /// Accounts that were registered before, and the relay's CPU seconds for that: registrations and their outputs.
  let registered: Int
  let registeringSeconds: Double
}

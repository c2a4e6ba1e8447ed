import RelayCore

/// The contacts that one client asks for, again and again: some are known, in no order.
struct AddressBook: Sendable {
  let tokens: [ContactToken]
  /// The known contacts among them, in the same order.
  let known: [ContactToken]

  /// The share of contacts that are known.
  static let knownShare = 0.3

  /// - Parameters:
  ///   - size: contacts, each once.
  ///   - entries: of `Contacts` in the directory; at least as many as are to be known.
  init(size: Int, of entries: Int) {
    let knownCount = Int(Double(size) * Self.knownShare)
    var numbers: Set<Int> = []
    while numbers.count < min(knownCount, entries) { numbers.insert(Int.random(in: 0..<entries)) }
    let unknown = (numbers.count..<size).map { _ in
      // No contact has it: to meet a contact's token would take 2^80 tries.
      ContactToken(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
    }
    let known = Set(numbers.map { Contacts.token($0) })
    tokens = (Array(known) + unknown).shuffled()
    self.known = tokens.filter { known.contains($0) }
  }
}

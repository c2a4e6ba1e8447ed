import RelayCore

/// What one client asks for, again and again: contacts of which some are known, in no order.
struct AddressBook: Sendable {
  let tokens: [ContactToken]
  /// Those of them that are known, in the same order.
  let known: [ContactToken]

  /// Of the contacts, those that are known.
  static let knownShare = 0.3

  /// - Parameters:
  ///   - size: contacts, each once.
  ///   - entries: of `Contacts` in the directory; at least as many as are to be known.
  init(size: Int, of entries: Int) {
    let knownCount = Int(Double(size) * Self.knownShare)
    var numbers: Set<Int> = []
    while numbers.count < min(knownCount, entries) { numbers.insert(Int.random(in: 0..<entries)) }
    let unknown = (numbers.count..<size).map { _ in
      // Nobody's: that one of them is a contact's would take 2^80 tries.
      ContactToken(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
    }
    let known = Set(numbers.map { Contacts.token($0) })
    tokens = (Array(known) + unknown).shuffled()
    self.known = tokens.filter { known.contains($0) }
  }
}

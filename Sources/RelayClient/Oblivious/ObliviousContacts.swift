import RelayCore

/// What a client keeps of its oblivious look-ups: the outputs of its contacts under the relay's key, so that each contact is
/// asked for once.
///
/// It names the contacts in clear, as an address book does, and is nobody else's business.
public struct ObliviousContacts: Sendable, Hashable, Codable {
  /// The relay's public key, in base64; nil before the first look-up.
  public private(set) var key: String?
  /// The first 8 bytes of each token's output, as a number.
  private var outputs: [String: UInt64] = [:]

  public init() {}

  /// How many contacts are kept.
  public var count: Int { outputs.count }

  /// Forgets contacts that are not in the address book any more.
  public mutating func keep(only tokens: some Sequence<String>) {
    let kept = Set(tokens)
    outputs = outputs.filter { kept.contains($0.key) }
  }

  /// Outputs under another key mean nothing.
  mutating func adopt(_ key: String) {
    guard self.key != key else { return }
    (self.key, outputs) = (key, [:])
  }

  subscript(token: String) -> ObliviousOutput? {
    get { outputs[token].map { ObliviousOutput(bits: $0) } }
    set { outputs[token] = newValue?.bits }
  }
}

/// What a look-up tells the relay of the contacts that it is for.
public enum ObliviousDisclosure: Sendable, Hashable {
  /// Nothing: the outputs of all registered contacts are downloaded, 8 bytes each.
  case nothing
  /// The first hexadecimal digits of each contact's output, 1 to 8: one of 16, 256, ... parts of all numbers that its own
  /// lies in. A request for each part.
  case digits(Int)
}

/// What an oblivious look-up found.
public struct ObliviousAnswer: Sendable, Hashable {
  /// Those that are registered, here or at a peer, and where, in the order of the request, each once: no ordinary look-up is
  /// needed. One that is not registered may be among them with a chance of 1 in 2^64 for each registered contact.
  public let contacts: [Contact]
  /// By how many digits the registered contacts fall into parts of 64 to 1,023.
  public let suggestedDigits: Int

  /// The tokens of `contacts`.
  public var registered: [String] { contacts.map(\.token) }
}

import RelayCore

/// The memory of a client's oblivious look-ups: its contacts' outputs under the relay's key, so that each contact is
/// sent once (docs/protocol.md, "Oblivious look-up").
///
/// Store it with the address book, and as carefully: it holds the tokens of all contacts. Its Codable form is this
/// library's own.
public struct ObliviousContacts: Sendable, Hashable, Codable {
  /// The relay's public key, base64 of 32 bytes; nil before the first look-up, and while the relay does not offer
  /// it. If the relay has another key, the outputs are dropped.
  public private(set) var key: String?
  /// The first 8 bytes of each token's output, as a number.
  private var outputs: [String: UInt64] = [:]

  /// Makes an empty memory, for the first look-up.
  public init() {}

  /// The number of contacts whose outputs are kept.
  public var count: Int { outputs.count }

  /// Forgets contacts that are not in the address book any more.
  /// - Parameter tokens: the tokens to keep, in the very spelling of the look-ups. Others are ignored.
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

/// The part of its contacts' outputs that a look-up tells the relay. More of it makes the download smaller.
public enum ObliviousDisclosure: Sendable, Hashable {
  /// Nothing is told. The look-up downloads the outputs of all registered contacts, 8 bytes each.
  case nothing
  /// The first hexadecimal digits of each contact's output are told, 1 to 8 of them. They name one of 16, 256, …
  /// parts of all numbers. The look-up downloads each part that one of its contacts is in, with a request or more for
  /// each.
  case digits(Int)
}

/// The result of an oblivious look-up.
public struct ObliviousAnswer: Sendable, Hashable {
  /// The contacts that are registered, here or at a peer that the relay copies, with their relays: in the order of
  /// the request, each once. A contact that is not registered is among them with a chance of 1 in 2^64 for each that
  /// is.
  public let contacts: [Contact]
  /// The digits by which all registered contacts fall into parts of 64 to 1,023 on average: the relay's advice for
  /// ``ObliviousDisclosure/digits(_:)``. 0 for fewer than 1,024 contacts, and when nothing was downloaded.
  public let suggestedDigits: Int

  /// The tokens of ``contacts``, in their order.
  public var registered: [String] { contacts.map(\.token) }
}

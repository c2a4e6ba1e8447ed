package import RelayCore

extension RelayConfiguration {
  package struct Federation: Sendable, Equatable {
    package let host: String
    /// nil: no listener for peers.
    package let port: Int?
    /// Always `https` and without a path; present whenever `port` is.
    package let url: WebURL?
    /// Whether URLs of peers may lead to addresses that are not public, wherever this relay is.
    package let allowsPrivate: Bool
    /// A folder.
    package let directory: String
    package let directoryInterval: Duration
    package let contactsMax: Int
    /// In days.
    package let ownership: Int
    package let outbox: OutboxBounds
    /// Whether a number that a peer lists can be registered here.
    package let respectsClaims: Bool
    /// Whether requests of clients that name no relay are carried to peers.
    package let routesImplicitly: Bool

    init(_ keys: inout ConfigurationReader) {
      let given = keys.optional(
        "federation.host", .host, default: "by federation.url",
        "Where the listener for peers listens; by default at every address, or at `127.0.0.1` if `federation.url` names "
          + "loopback.")
      port = keys.optional(
        "federation.port", .port, default: "none (= off)", "Its port; mutual TLS, HTTP/2. Needs `federation.url`.")
      url = keys.optional("federation.url", .secureOrigin, "Where peers reach this relay: `https://HOST[:PORT]`.")
      host = given ?? Self.host(reachedBy: url)
      keys.holds(host, for: "federation.host")
      allowsPrivate = keys.value(
        "federation.allow-private", .boolean, default: "false",
        "Lets URLs of peers lead to loopback and private addresses, which is always so if `federation.url` names one.")
      directory = keys.value(
        "federation.directory", .path, default: "relay-data/federation",
        "The folder of this relay's CA, leaf certificates and keys, as `relay ca` writes them.")
      directoryInterval = keys.value(
        "federation.directory-interval", .seconds(0.05...86_400), default: "2",
        "How often a peer that does not keep our questions is asked for changes in its listing.")
      contactsMax = keys.value(
        "federation.contacts-max", .whole(1...100_000_000), default: "5000000",
        "Contact tokens that one peer may claim here; further ones in its listing are ignored.")
      ownership = keys.value(
        "federation.ownership-days", .whole(1...3650), default: "30",
        "How long a contact that a peer lists no longer stays its own, so that no other peer has it.")
      outbox = OutboxBounds(&keys)
      respectsClaims =
        keys.value(
          "federation.number-claims", .choice(NumberClaims.self), default: "ignore",
          "With `ignore`, a number that is proved here is registered although a peer lists it; with `refuse` it is "
            + "answered 417.") == .refuse
      routesImplicitly = keys.value(
        "federation.implicit", .boolean, default: "true",
        "Carries requests of clients that name no relay to the peer that has the number or the attachment.")
      if port != nil {
        keys.miss(
          "federation.url", because: "federation.port is given, so peers must know where to reach us",
          of: "federation.port")
      }
    }

    /// Peers on other hosts have to reach it; where `url` is loopback, there are none.
    private static func host(reachedBy url: WebURL?) -> String {
      guard let url, !PublicAddress.isLoopback(url.host) else { return "127.0.0.1" }
      return url.host.contains(":") ? "::" : "0.0.0.0"
    }
  }
}

extension OutboxBounds {
  fileprivate init(_ keys: inout ConfigurationReader) {
    self.init(
      messagesMax: keys.value(
        "federation.outbox.messages-max", .whole(1...100_000_000), default: "100000",
        "Messages that may wait for one peer, if `relay peer set NAME --hold on` lets them."),
      bytesMax: Int64(
        keys.value(
          "federation.outbox.bytes-max", .whole(1...1_000_000_000_000), default: "1073741824",
          "Bytes that the messages for one peer may take together.")),
      age: .seconds(
        3600
          * keys.value(
            "federation.outbox.hours", .whole(1...720), default: "72",
            "How long a message waits; then its sender is told that it cannot be delivered.")))
  }
}

/// The fate of a number that a peer lists and somebody proves here.
enum NumberClaims: String, Sendable, CaseIterable { case ignore, refuse }

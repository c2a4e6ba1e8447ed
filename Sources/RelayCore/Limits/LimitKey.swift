/// One bucket's part of a charge of several.
package struct LimitCharge: Sendable {
  package let amount: Double
  package let limiter: LimiterName
  package let key: LimitKey
  package init(_ amount: Double, from limiter: LimiterName, key: LimitKey) {
    self.amount = amount
    self.limiter = limiter
    self.key = key
  }
}

/// The key of a bucket: up to two accounts and a device, as reference 3.6 composes them, perhaps of one peer.
package struct LimitKey: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "limit key"
  package let text: String
  /// The account, the address or the peer that the bucket is one of: the text up to its first `__`. Buckets that are
  /// charged together, all or none, mostly have one subject.
  package var subject: Substring {
    let bytes = text.utf8
    let end = zip(bytes.indices, bytes.indices.dropFirst()).first {
      bytes[$0] == UInt8(ascii: "_") && bytes[$1] == UInt8(ascii: "_")
    }
    return text[..<(end?.0 ?? text.endIndex)]
  }
  package init(_ account: AccountNumber) { text = account.e164 }
  package init(_ own: AccountNumber, _ target: AccountNumber) { text = "\(own.e164)__\(target.e164)" }
  package init(_ own: AccountNumber, _ target: AccountNumber, _ selector: DeviceSelector) {
    text = "\(own.e164)__\(target.e164).\(selector.text)"
  }
  package init(_ target: AccountNumber, _ selector: DeviceSelector) { text = "\(target.e164).\(selector.text)" }
  package init(_ network: ClientNetwork) { text = network.prefix.map(String.init).joined(separator: ".") }
  package init(_ device: DeviceAddress) { text = "\(device.account.e164).\(device.device)" }
  /// An account that a device is being linked to, apart from its registration.
  package init(linkingTo account: AccountNumber) { text = "\(account.e164)__link" }
  /// The same subject as one client asks for it.
  package func from(_ origin: RequestOrigin) -> LimitKey {
    LimitKey(text: "\(text)__from__\(origin.address?.networks.first.map { LimitKey($0).text } ?? "*")")
  }
  /// The same subject as all ask for it together who have no share in it of their own.
  package var byStrangers: LimitKey { LimitKey(text: text + "__strangers") }
  /// `key`, of what `peer` says of its accounts: no other peer, and no client of ours, shares the bucket. Keys of
  /// numbers begin with a plus sign, which no name holds.
  package init(_ peer: RelayName, _ key: LimitKey) { text = "\(peer)__\(key.text)" }
  /// All that `peer` does here.
  package init(_ peer: RelayName) { text = "\(peer)__" }
  /// A relay that is no peer, known by its CA's key alone: `fingerprint` is hexadecimal. No name holds a colon.
  package init(authority fingerprint: String) { text = "ca:\(fingerprint)" }
  /// An account of device notifications.
  package init(_ user: NotificationUser) { text = "dpn:\(user)" }
  private init(text: String) { self.text = text }
  /// One bucket for all.
  package static let everyone = LimitKey(text: "*")
}

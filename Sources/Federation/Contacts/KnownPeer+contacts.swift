import RelayCore

extension KnownPeer {
  /// Whether a copy of its listing is kept here.
  var isCopied: Bool { isActive && coversContacts && peer.policy.contacts == .copy }
  /// Whether it is asked at look-up time.
  var isQueried: Bool { isActive && coversContacts && peer.policy.contacts == .query }

  /// A peering that leaves the directory out in one direction leaves it out in the other, unless its operators name
  /// different scopes: then `lookup` alone will do.
  private var coversContacts: Bool { !peer.scopes.isDisjoint(with: [.directory, .lookup]) }
}

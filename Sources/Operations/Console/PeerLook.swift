import RelayCore

/// Whether a peer is asked, as the console shows it.
enum PeerLook: String, Sendable {
  case reachable, away, suspended

  init(_ peer: Peer) {
    self =
      switch (peer.state, peer.condition) {
      case (.suspended, _): .suspended
      case (.active, .unreachable): .away
      case (.active, .reachable): .reachable
      }
  }

  /// For people: since when the peer is away and by what fault, or why and until when it is suspended; nil if there is
  /// nothing to say.
  static func explanation(of peer: Peer) -> String? {
    switch (peer.state, peer.condition) {
    case (.suspended, _):
      let words = [peer.suspension?.until.map { "until \($0.iso8601)" }, peer.suspension?.reason].compactMap(\.self)
      return words.isEmpty ? nil : words.joined(separator: ", ")
    case (.active, .unreachable(let fault, let since)): return "\(fault.rawValue) since \(since.iso8601)"
    case (.active, .reachable): return nil
    }
  }
}

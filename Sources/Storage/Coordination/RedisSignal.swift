import RelayCore

/// A signal between processes over the channel: `SENDER KIND [NUMBER]`, in ASCII.
///
/// A number travels here in clear and is stored nowhere; a listener needs it to find its cached entry.
struct RedisSignal: Equatable {
  enum Content: Equatable {
    case signal(Signal)
    /// The sender could not publish for a while: what listeners cached may be stale.
    case missed
  }
  /// Random for each process, so that it knows its own echo.
  let sender: String
  let content: Content

  init(sender: String, content: Content) {
    self.sender = sender
    self.content = content
  }

  /// - Returns: nil for what no relay of this version writes.
  init?(_ payload: [UInt8]) {
    let parts = String(decoding: payload, as: UTF8.self).split(separator: " ")
    guard parts.count >= 2 else { return nil }
    switch (parts[1], parts.count) {
    case ("account", 3):
      guard let number = AccountNumber(e164: parts[2]) else { return nil }
      content = .signal(.accountChanged(number))
    case ("peers", 2): content = .signal(.peersChanged)
    case ("contacts", 2): content = .signal(.contactsChanged)
    case ("wakes", 2): content = .signal(.wakesAsked)
    case ("missed", 2): content = .missed
    default: return nil
    }
    sender = String(parts[0])
  }

  var text: String {
    switch content {
    case .signal(.accountChanged(let number)): "\(sender) account \(number.e164)"
    case .signal(.peersChanged): "\(sender) peers"
    case .signal(.contactsChanged): "\(sender) contacts"
    case .signal(.wakesAsked): "\(sender) wakes"
    case .missed: "\(sender) missed"
    }
  }
}

// How both back ends write a peer's lists and words.

import RelayCore

extension Set<Peer.Scope> {
  /// Their names, ascending, with a space between them.
  var column: String { sorted().map(\.rawValue).joined(separator: " ") }
  /// A scope that a newer relay wrote is none of ours: it grants nothing here.
  init(column: String) { self.init(column.split(separator: " ").compactMap { Peer.Scope(rawValue: String($0)) }) }
}

extension PeerPolicy.Contacts {
  /// A way that a newer relay wrote is none of ours: nothing is found that way here.
  init(column: String) { self = Self(rawValue: column) ?? .none }
}

extension [AttachmentMark] {
  /// Decimal, with a space between them.
  init(column: String) { self = column.split(separator: " ").compactMap { Int($0).flatMap { AttachmentMark($0) } } }
}

extension PeerCondition {
  var fault: PeerFault? {
    switch self {
    case .reachable: nil
    case .unreachable(let fault, _): fault
    }
  }
  var faultSince: Timestamp? {
    switch self {
    case .reachable: nil
    case .unreachable(_, let since): since
    }
  }
  /// A fault that a newer relay wrote is one all the same.
  init(fault: String?, since: Timestamp?) {
    guard let fault else {
      self = .reachable
      return
    }
    self = .unreachable(PeerFault(rawValue: fault) ?? .silent, since: since ?? Timestamp(millis: 0))
  }
}

/// Serial numbers as text: lower-case hex, with a space between them.
enum SerialsText {
  static func encode(_ serials: [[UInt8]]) -> String {
    serials.map { serial in
      serial.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }.joined(separator: " ")
  }

  /// - Returns: nil for what `encode` does not write.
  static func decode(_ text: String) -> [[UInt8]]? {
    var serials: [[UInt8]] = []
    for word in text.utf8.split(separator: 0x20) {
      guard word.count.isMultiple(of: 2) else { return nil }
      var serial: [UInt8] = []
      var rest = word[...]
      while !rest.isEmpty {
        // A sign is read as a part of a number, and is no digit.
        guard rest.first != UInt8(ascii: "+"), rest.first != UInt8(ascii: "-"),
          let byte = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
        else { return nil }
        serial.append(byte)
        rest = rest.dropFirst(2)
      }
      serials.append(serial)
    }
    return serials
  }
}

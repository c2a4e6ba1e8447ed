package import RelayCore

/// A certificate whose end is watched.
package struct WatchedCertificate: Sendable, Hashable {
  package enum Kind: Sendable, Hashable {
    case leaf, ca
    /// A listener's, by the prefix of its keys in the configuration: `client.tls`.
    case listener(keys: String)

    /// In metrics and in the log: `leaf`, `ca`, `client`.
    package var word: String {
      switch self {
      case .leaf: "leaf"
      case .ca: "ca"
      case .listener(let keys): String(keys.prefix { $0 != "." })
      }
    }
  }

  /// The peer whose it is; nil for ours.
  package let holder: RelayName?
  package let kind: Kind
  /// The serial number, which differs from the certificate before and the one after.
  package let serial: [UInt8]
  package let validUntil: Timestamp

  package init(holder: RelayName?, kind: Kind, serial: [UInt8], validUntil: Timestamp) {
    self.holder = holder
    self.kind = kind
    self.serial = serial
    self.validUntil = validUntil
  }

  /// The step that its operator has to take in time.
  var remedy: String {
    switch (holder, kind) {
    case (nil, .leaf): "run `relay ca renew`"
    case (nil, .ca): "run `relay ca rollover begin`"
    case (let peer?, .leaf): "ask \(peer)'s operator to run `relay ca renew`"
    case (let peer?, .ca): "ask \(peer)'s operator to run `relay ca rollover begin`"
    case (_, .listener(let keys)): "renew the file that \(keys).certificate names; running relays take it up"
    }
  }
}

/// How near the end of a certificate is. Later stages are greater.
enum CertificateStage: Int, Sendable, Comparable, CaseIterable {
  case month, fortnight, days, over

  private static let daysLeft: [(days: Int64, stage: CertificateStage)] = [(3, .days), (14, .fortnight), (30, .month)]

  /// - Returns: nil while there are more than 30 days.
  init?(validUntil end: Timestamp, now: Timestamp) {
    let left = end.millis - now.millis
    if left < 0 {
      self = .over
    } else if let reached = Self.daysLeft.first(where: { left <= $0.days * Timestamp.millisPerDay }) {
      self = reached.stage
    } else {
      return nil
    }
  }

  static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// Which warnings about the ends of certificates have been given: each stage of each certificate once.
struct CertificateAlarms: Sendable {
  private var told: [WatchedCertificate: CertificateStage] = [:]

  /// - Parameter watched: all certificates that are watched now; others are forgotten.
  /// - Returns: the certificates that have come to a stage that was not told, each with that stage. If one has passed
  ///   several stages at once, the last.
  mutating func due(
    among watched: [WatchedCertificate], now: Timestamp
  ) -> [(certificate: WatchedCertificate, stage: CertificateStage)] {
    var reached: [WatchedCertificate: CertificateStage] = [:]
    var due: [(certificate: WatchedCertificate, stage: CertificateStage)] = []
    for certificate in watched where reached[certificate] == nil {
      // A clock that was set back does not make an alarm that was given come again.
      let stage = [CertificateStage(validUntil: certificate.validUntil, now: now), told[certificate]].compactMap(\.self)
      guard let stage = stage.max() else { continue }
      reached[certificate] = stage
      if told[certificate] != stage { due.append((certificate, stage)) }
    }
    told = reached
    return due
  }
}

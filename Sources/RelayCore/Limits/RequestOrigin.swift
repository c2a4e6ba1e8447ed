/// The source of a request, and the way that it came.
package struct RequestOrigin: Sendable, Equatable {
  /// nil when the connection has no network address.
  package var address: ClientAddress?
  /// Whether the client speaks TLS: to us, or to a trusted proxy before us.
  package var isSecure: Bool

  package init(address: ClientAddress?, isSecure: Bool) {
    self.address = address
    self.isSecure = isSecure
  }

  /// The charges of a limit by address: each network that the client's address lies in, a larger one by so much less as
  /// it has more allowance. Requests without an address share one bucket.
  package func charges(_ amount: Double = 1, to limiter: LimiterName) -> [LimitCharge] {
    guard let address else { return [LimitCharge(amount, from: limiter, key: .everyone)] }
    return address.networks.map { network in
      LimitCharge(amount / Double(network.allowance), from: limiter, key: LimitKey(network))
    }
  }
}

/// How many places of a process each client address takes, and each network that it lies in.
package struct AddressShares: Sendable {
  private let perAddress: Int
  /// A network that takes no place is not in it.
  private var counts: [LimitKey: Int] = [:]

  /// - Parameter perAddress: places of one address; a larger network has its allowance times as many.
  package init(perAddress: Int) { self.perAddress = perAddress }

  package func hasRoom(for origin: RequestOrigin) -> Bool {
    shares(of: origin).allSatisfy { counts[$0.key, default: 0] < $0.max }
  }

  package mutating func take(_ origin: RequestOrigin) {
    for share in shares(of: origin) { counts[share.key, default: 0] += 1 }
  }

  package mutating func giveBack(_ origin: RequestOrigin) {
    for share in shares(of: origin) {
      let left = counts[share.key, default: 1] - 1
      counts[share.key] = left > 0 ? left : nil
    }
  }

  private func shares(of origin: RequestOrigin) -> [(key: LimitKey, max: Int)] {
    guard let address = origin.address else { return [(.everyone, perAddress)] }
    return address.networks.map { (LimitKey($0), perAddress * $0.allowance) }
  }
}

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

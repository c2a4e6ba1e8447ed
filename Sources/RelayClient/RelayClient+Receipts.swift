extension RelayClient {
  /// Tells `sender` that this device has received what it sent at `timestamp`. Acknowledging a message does so, too.
  /// - Parameter relay: the relay that the message named; nil for this client's own.
  /// - Throws: `.refused`: 404 no such message was received, no such number or relay; 413 too many; 503 the other
  ///   relay is away.
  public func sendReceipt(for timestamp: Int64, to sender: PhoneNumber, at relay: String? = nil)
    async throws(RelayClientError)
  {
    let path = "/v1/receipt/\(sender.e164)/\(timestamp)" + (try relayQuery(relay))
    _ = try await send(RelayRequest(.put, path))
  }
}

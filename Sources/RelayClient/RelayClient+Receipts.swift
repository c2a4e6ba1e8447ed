extension RelayClient {
  /// Tells `sender` that this device has received the message it sent at `timestamp` (reference 1.9).
  ///
  /// An acknowledgement has the relay do so by itself. Use this for clients that acknowledge and confirm at different
  /// times.
  /// - Parameters:
  ///   - timestamp: the message's own time, milliseconds since 1970.
  ///   - sender: the number that sent it.
  ///   - relay: the relay that the message came from, ``IncomingMessage/relay``; nil for this client's own.
  /// - Throws: `.refused`: 404 no such message was received, or there is no such number or relay; 413 too many
  ///   receipts; 503 the other relay is away. `.invalidArgument` for an empty `relay`.
  public func sendReceipt(for timestamp: Int64, to sender: PhoneNumber, at relay: String? = nil)
    async throws(RelayClientError)
  {
    let path = "/v1/receipt/\(sender.e164)/\(timestamp)" + (try relayQuery(relay))
    _ = try await send(RelayRequest(.put, path))
  }
}

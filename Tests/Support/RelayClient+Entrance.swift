package import RelayClient

extension RelayClient {
  /// A way to a relay, with time-outs for a relay that may die at any moment.
  package static func entrance(_ url: String, patience: Duration = .seconds(20)) throws -> RelayClient {
    var options = RelayClient.Options()
    options.connectTimeout = .seconds(5)
    options.requestTimeout = patience
    options.connectionsMax = 64
    return try RelayClient(url: url, options: options)
  }
}

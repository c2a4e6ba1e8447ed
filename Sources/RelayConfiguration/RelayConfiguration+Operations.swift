package import RelayCore

extension RelayConfiguration {
  package struct Operations: Sendable, Equatable {
    package let host: String
    /// 0 takes any free one.
    package let port: Int
    /// Tokens of the operator API: those that may look, and those that may change and look.
    package let readTokens: [OperatorToken]
    package let changeTokens: [OperatorToken]

    init(_ keys: inout ConfigurationReader) {
      host = keys.value(
        "operator.host", .host, default: "127.0.0.1",
        "Where `/livez`, `/readyz`, `/metrics` and the operator API are served; only the API asks for credentials.")
      port = keys.value("operator.port", .port, default: "8081", "Its port.")
      readTokens =
        keys.optional(
          "operator.read-tokens", .operatorTokens, default: "none (= off)", secrecy: .secret, taking: .onReload,
          "Tokens that may read over the operator API: `NAME:TOKEN`, comma-separated or a line each; "
            + "`openssl rand -hex 32` makes one.") ?? []
      changeTokens =
        keys.optional(
          "operator.change-tokens", .operatorTokens, default: "none", secrecy: .secret, taking: .onReload,
          "Tokens that may also change things over it; the audit log shows the name.") ?? []
    }
  }
}

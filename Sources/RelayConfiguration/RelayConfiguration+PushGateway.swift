package import RelayCore

extension RelayConfiguration {
  package struct PushGateway: Sendable, Equatable {
    package let host: String
    /// nil: no gateway. 0 takes any free one.
    package let port: Int?
    /// App ids and patterns with their options, as the push gateway reads them; present whenever `port` is.
    package let apps: JSONValue?

    init(_ keys: inout ConfigurationReader, _ readers: TreeReaders) {
      host = keys.value(
        "push-gateway.host", .host, default: "127.0.0.1",
        "Where the Matrix push gateway listens, with plain HTTP and without credentials, behind a proxy that has TLS.")
      port = keys.optional(
        "push-gateway.port", .port, default: "none (= off)", "Its port; needs `push-gateway.apps`.")
      apps = keys.tree(
        "push-gateway.apps", type: "apps",
        "The options of each app id, or pattern of app ids; in the environment as YAML or JSON, which takes the place of the "
          + "file's.", readers.pushApps)
      if port != nil {
        keys.miss(
          "push-gateway.apps", because: "push-gateway.port is given, so somebody must be pushed to",
          of: "push-gateway.port")
      } else if apps != nil, !keys.isGiven("push-gateway.port") {
        keys.warn(
          "push-gateway.apps has no effect without push-gateway.port: the gateway is off", at: "push-gateway.apps")
      }
    }
  }
}

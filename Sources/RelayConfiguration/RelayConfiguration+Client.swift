package import RelayCore

extension RelayConfiguration {
  package struct Client: Sendable, Equatable {
    package let host: String
    /// 0 takes any free one.
    package let port: Int
    package let tls: TLS?
    package let trustedProxies: [AddressRange]
    package let origins: AllowedOrigins
    package let connectionsMax: Int
    package let webSockets: WebSockets

    init(_ keys: inout ConfigurationReader) {
      host = keys.value("client.host", .host, default: "127.0.0.1", "Where the client API listens.")
      port = keys.value("client.port", .port, default: "8080", "Its port.")
      tls = TLS(&keys, below: "client.tls")
      trustedProxies = keys.value(
        "client.trusted-proxies", .addressRanges, default: "none",
        "Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed: addresses or CIDR ranges, comma-separated."
      )
      origins = keys.value(
        "client.origins", .origins, default: "none",
        "Web pages that may use the client API from a browser: origins as `https://HOST[:PORT]`, comma-separated, or `all`."
      )
      connectionsMax = keys.value(
        "client.connections-max", .whole(10...1_000_000), default: "20000",
        "Connections of clients, WebSockets included, that one process holds; further ones wait to be accepted.")
      webSockets = WebSockets(&keys)
    }
  }

  package struct WebSockets: Sendable, Equatable {
    /// The dialect of sockets that are opened with `login`; `user` always means JSON (reference 1.12).
    package let loginDialect: WebSocketDialect
    package let idle: Duration

    init(_ keys: inout ConfigurationReader) {
      loginDialect = keys.value(
        "client.websocket.login", .choice(WebSocketDialect.self), default: "protobuf",
        "The dialect of WebSockets that are opened with `login=`; `json` is for clients from before `protobuf`.")
      idle = keys.value(
        "client.websocket.idle-seconds", .whole(5...3600, of: .seconds(1)), default: "90",
        "A device's WebSocket that is silent for so long is closed. As long as this is 90, one that speaks JSON has 600 s. Pings count; the relay asks nobody."
      )
    }
  }
}

/// Reference 1.12.
package enum WebSocketDialect: String, Sendable, CaseIterable { case protobuf, json }

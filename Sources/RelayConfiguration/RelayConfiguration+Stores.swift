package import RelayCore

extension RelayConfiguration {
  package struct Storage: Sendable, Equatable {
    package let location: StorageLocation
    /// The file that `location` came from, where it has one of its own.
    let urlFile: String?
    /// Whether pending migrations run at start.
    package let migratesAtStart: Bool
    package let startPatience: Duration
    /// 32 bytes; nil: signaling keys are stored as they are.
    package let encryptionKey: SecretBytes?
    package let formerEncryptionKey: SecretBytes?

    init(_ keys: inout ConfigurationReader) {
      location = keys.value(
        "storage.url", .storage, default: "sqlite:relay-data/relay.sqlite", secrecy: .password,
        taking: .onConnection { $0.storage.urlFile == $1.storage.urlFile && $0.storage.presentURL != nil },
        "Durable storage: `sqlite:PATH` for one process, or `postgres://[USER[:PASSWORD]@]HOST[:PORT][,HOST...]/DATABASE` "
          + "for any number.")
      urlFile = keys.file(of: "storage.url")
      let isEmbedded = if case .sqlite = location { true } else { false }
      migratesAtStart =
        keys.optional(
          "storage.migrate", .boolean, default: "true for sqlite, else false",
          "Runs pending migrations at start.") ?? isEmbedded
      keys.holds(String(migratesAtStart), for: "storage.migrate")
      startPatience = keys.value(
        "storage.start-seconds", .seconds(0...3600), default: "60",
        "How long `relay serve` waits for a store that does not answer yet, as after a boot; until then it is not ready."
      )
      encryptionKey = keys.optional(
        "storage.encryption-key", .encryptionKey, secrecy: .secret,
        "Base64 of 32 random bytes, under which keys and secrets are stored encrypted; without it they are stored as they "
          + "are.")
      formerEncryptionKey = keys.optional(
        "storage.encryption-key-former", .encryptionKey, secrecy: .secret,
        "The key before it: what was stored under that can be read, and is sealed anew under `storage.encryption-key`.")
      if formerEncryptionKey != nil {
        keys.miss(
          "storage.encryption-key", because: "storage.encryption-key-former is given",
          of: "storage.encryption-key-former")
      }
    }
  }

  package struct Coordination: Sendable, Equatable {
    package let location: CoordinationLocation
    /// The file that `location` came from, where it has one of its own.
    let urlFile: String?

    init(_ keys: inout ConfigurationReader) {
      let given = keys.value(
        "coordination.url", .coordination, default: "local", secrecy: .password,
        taking: .onConnection {
          $0.coordination.urlFile == $1.coordination.urlFile && $0.coordination.presentEndpoint != nil
        },
        "What processes share: `local` for one process, `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`, "
          + "`redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST...]/MASTER[/DATABASE]` for a primary that sentinels "
          + "name, `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST...]` for a cluster, the same with `rediss` for TLS, or `redis+unix://[[USER]:PASSWORD@]/PATH[?db=DATABASE]`."
      )
      urlFile = keys.file(of: "coordination.url")
      let files = RedisTLSFiles(
        authority: keys.optional(
          "coordination.tls.ca", .path, default: "the system's",
          "PEM file of the CAs that Redis's certificate may come from; needs `rediss`, read anew at each connection."
        ),
        certificate: keys.optional(
          "coordination.tls.certificate", .path,
          "PEM certificate chain that the relay presents to Redis; needs `rediss`, read anew at each connection."),
        key: keys.optional(
          "coordination.tls.key", .path,
          "PEM private key to it, without a passphrase; read anew at each connection."))
      keys.pair("coordination.tls.certificate", "coordination.tls.key")
      guard case .redis(let endpoint) = given, endpoint.tls != nil else {
        location = given
        // A fault and no warning: whoever gives them counts on TLS.
        for name in ["coordination.tls.ca", "coordination.tls.certificate", "coordination.tls.key"]
        where keys.isGiven(name) {
          keys.fault("\(name) needs coordination.url to begin with rediss", at: name)
        }
        return
      }
      location = .redis(endpoint.secured(by: files))
    }
  }
}

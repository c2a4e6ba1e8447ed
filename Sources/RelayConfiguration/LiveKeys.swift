extension ConfigurationKey {
  /// How a running process takes a change of a key's value.
  package enum Taking: Sendable {
    /// With SIGHUP.
    case onReload
    /// With its next connection, if the value stands in a file of its own, which the closure tells.
    case onConnection(@Sendable (RelayConfiguration) -> Bool)
    case onRestart
  }

  package var taking: Taking {
    switch name {
    case Keys.storageURL.key.name: .onConnection { $0.storage.presentURL != nil }
    case Keys.coordinationURL.key.name: .onConnection { $0.coordination.presentEndpoint != nil }
    case let name where name.hasPrefix("limits.") || Self.live.contains(name): .onReload
    default: .onRestart
    }
  }

  private static let live: Set = [
    Keys.logLevel.key.name, Keys.webhookSecret.key.name, Keys.twilioToken.key.name, Keys.s3AccessKey.key.name,
    Keys.s3SecretKey.key.name, Keys.operatorReadTokens.key.name, Keys.operatorChangeTokens.key.name,
  ]
}

package import RelayCore

/// One app at Google's service, HTTP v1.
package struct FCMSettings: Sendable {
  package static let service = "https://fcm.googleapis.com"

  /// The JSON file of a service account.
  package var serviceAccountFile: String
  /// nil for what the file says.
  package var projectID: String?
  /// `https://HOST[:PORT]`, no slash at the end.
  package var endpoint: String
  /// The URL that access tokens come from; nil for the one that the file names.
  package var tokenEndpoint: String?
  /// A PEM file with CAs to be trusted beside the system's; nil for none.
  package var trust: String?
  /// Requests at a time.
  package var connectionsMax: Int

  package init(
    serviceAccountFile: String, projectID: String? = nil, endpoint: String = service, tokenEndpoint: String? = nil,
    trust: String? = nil, connectionsMax: Int = 20
  ) {
    self.serviceAccountFile = serviceAccountFile
    self.projectID = projectID
    self.endpoint = endpoint
    self.tokenEndpoint = tokenEndpoint
    self.trust = trust
    self.connectionsMax = connectionsMax
  }
}

/// A service that still speaks what Google switched off in 2024.
package struct FCMLegacySettings: Sendable {
  package var key: Secret
  package var endpoint: String
  package var trust: String?
  package var connectionsMax: Int

  package init(
    key: Secret, endpoint: String = FCMSettings.service, trust: String? = nil, connectionsMax: Int = 20
  ) {
    self.key = key
    self.endpoint = endpoint
    self.trust = trust
    self.connectionsMax = connectionsMax
  }
}

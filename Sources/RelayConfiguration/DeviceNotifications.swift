// Device notifications: their keys, what they read as, and what must fit together.

import RelayCore

extension RelayConfiguration {
  package struct DeviceNotifications: Sendable, Equatable {
    package let host: String
    /// nil: none are served. 0 takes any free one.
    package let port: Int?
    /// nil: HTTP as it is, on loopback.
    package let tls: TLS?
    /// Whole days.
    package let retention: Duration
    /// Of an account.
    package let recipientsMax: Int64
    /// nil: Apple's service is not used.
    package let apns: APNs?
    /// nil: Google's service is not used.
    package let fcm: FCM?
  }
}

extension Keys {
  static let notificationHost = Setting(
    "device-notifications.host", .host, default: "127.0.0.1", "Where the interface for device notifications listens.")
  static let notificationPort = OptionalSetting(
    "device-notifications.port", .port, default: "none (= off)",
    "Its port; needs a certificate, or `device-notifications.plain`.")
  static let notificationCertificate = OptionalSetting(
    "device-notifications.tls.certificate", .path, "PEM certificate chain; reloaded when the file changes.")
  static let notificationKey = OptionalSetting(
    "device-notifications.tls.key", .path, "PEM private key to it; reloaded when the file changes.")
  static let notificationPlain = Setting(
    "device-notifications.plain", .boolean, default: "false", "Serves HTTP without TLS; on loopback alone.")
  static let notificationDays = Setting(
    "device-notifications.retention-days", .whole(1...3650), default: "30",
    "How long notifications and events can be fetched.")
  static let notificationRecipients = Setting(
    "device-notifications.recipients-max", .whole(1...1_000_000_000), default: "1000000",
    "Recipients that one user may have, inactive ones too; beyond it `subscribe` answers 13.")
  static let notificationAPNsKey = OptionalSetting(
    "device-notifications.apns.key-file", .path, "Apple's `.p8` file; with `key-id`, `team-id` and `topic`.")
  static let notificationAPNsKeyID = OptionalSetting("device-notifications.apns.key-id", .text, "The id of that key.")
  static let notificationAPNsTeam = OptionalSetting("device-notifications.apns.team-id", .text, "The team's id.")
  static let notificationAPNsTopic = OptionalSetting(
    "device-notifications.apns.topic", .text, "The app's bundle id; with a certificate, what that says.")
  static let notificationAPNsCertificate = OptionalSetting(
    "device-notifications.apns.certificate-file", .path,
    "In place of a key: PEM with Apple's certificate and its unencrypted key.")
  static let notificationAPNsSandbox = Setting(
    "device-notifications.apns.sandbox", .boolean, default: "false", "Whether the app is a development build.")
  static let notificationFCMAccount = OptionalSetting(
    "device-notifications.fcm.service-account-file", .path, "Google's JSON file of a service account.")
  static let notificationFCMProject = OptionalSetting(
    "device-notifications.fcm.project-id", .text, default: "what the service account says", "The Firebase project.")

  /// In the order of the documents.
  static let notifications: [ConfigurationKey] = [
    notificationHost.key, notificationPort.key, notificationCertificate.key, notificationKey.key,
    notificationPlain.key, notificationDays.key, notificationRecipients.key, notificationAPNsKey.key,
    notificationAPNsKeyID.key, notificationAPNsTeam.key, notificationAPNsTopic.key, notificationAPNsCertificate.key,
    notificationAPNsSandbox.key,
    notificationFCMAccount.key, notificationFCMProject.key,
  ]
}

extension RelayConfiguration.DeviceNotifications {
  init(_ reader: inout ConfigurationReader) {
    host = reader.value(Keys.notificationHost)
    port = reader.value(Keys.notificationPort)
    retention = .seconds(86_400 * reader.value(Keys.notificationDays))
    recipientsMax = Int64(reader.value(Keys.notificationRecipients))
    let (certificate, key) = (reader.value(Keys.notificationCertificate), reader.value(Keys.notificationKey))
    tls = if let certificate, let key { RelayConfiguration.TLS(certificate: certificate, key: key) } else { nil }
    apns = RelayConfiguration.APNs(
      .init(
        keyFile: Keys.notificationAPNsKey, keyID: Keys.notificationAPNsKeyID, teamID: Keys.notificationAPNsTeam,
        topic: Keys.notificationAPNsTopic, certificateFile: Keys.notificationAPNsCertificate,
        sandbox: Keys.notificationAPNsSandbox), &reader)
    fcm = RelayConfiguration.FCM(
      serviceAccount: Keys.notificationFCMAccount, projectID: Keys.notificationFCMProject, &reader)
    Self.pair(Keys.notificationCertificate.key, Keys.notificationKey.key, &reader)
    checkTransport(isPlain: reader.value(Keys.notificationPlain), &reader)
    guard port == nil, !reader.isGiven(Keys.notificationPort.key) else { return }
    if let given = [
      Keys.notificationAPNsKey.key, Keys.notificationAPNsCertificate.key, Keys.notificationFCMAccount.key,
    ]
    .first(where: { reader.isGiven($0) }) {
      reader.warn(
        "\(given.name) has no effect without device-notifications.port: device notifications are off", at: given)
    }
  }

  /// Each of the two needs the other.
  private static func pair(_ one: ConfigurationKey, _ other: ConfigurationKey, _ reader: inout ConfigurationReader) {
    if reader.isGiven(one) { reader.miss(other, because: "\(one.name) is given", of: one) }
    if reader.isGiven(other) { reader.miss(one, because: "\(other.name) is given", of: other) }
  }

  /// Passwords and recipient numbers travel over it.
  private func checkTransport(isPlain: Bool, _ reader: inout ConfigurationReader) {
    guard port != nil, !reader.isGiven(Keys.notificationCertificate.key), !reader.isGiven(Keys.notificationKey.key)
    else { return }
    if !isPlain {
      reader.fault(
        "device-notifications.port is given: device-notifications.tls.certificate and device-notifications.tls.key are "
          + "needed, or, on loopback, device-notifications.plain: true",
        at: Keys.notificationPort.key)
    } else if !PublicAddress.isLoopback(host) {
      reader.fault(
        "device-notifications.plain is for loopback alone, and device-notifications.host is not: give a certificate",
        at: Keys.notificationPlain.key)
    }
  }
}

import RelayCore

extension RelayConfiguration {
  package struct DeviceNotifications: Sendable, Equatable {
    package let host: String
    /// nil: none are served. 0 takes any free one.
    package let port: Int?
    /// nil: HTTP as it is, on loopback.
    package let tls: TLS?
    package let retention: Duration
    /// nil: Apple's service is not used.
    package let apns: APNs?
    /// nil: Google's service is not used.
    package let fcm: FCM?

    init(_ keys: inout ConfigurationReader) {
      host = keys.value(
        "device-notifications.host", .host, default: "127.0.0.1",
        "Where the interface for device notifications listens.")
      port = keys.optional(
        "device-notifications.port", .port, default: "none (= off)",
        "Its port; needs a certificate, or `device-notifications.plain`.")
      tls = TLS(&keys, below: "device-notifications.tls")
      let isPlain = keys.value(
        "device-notifications.plain", .boolean, default: "false",
        "Serves HTTP without TLS, on loopback alone: for a proxy on the same machine, or for tests.")
      retention = .seconds(
        86_400
          * keys.value(
            "device-notifications.retention-days", .whole(1...3650), default: "30",
            "How long notifications and events can be fetched."))
      apns = APNs(&keys, below: "device-notifications.apns")
      fcm = FCM(&keys, below: "device-notifications.fcm")
      checkTransport(isPlain: isPlain, &keys)
      guard port == nil, !keys.isGiven("device-notifications.port") else { return }
      let credentials = ["apns.key-file", "apns.certificate-file", "fcm.service-account-file"]
        .map { "device-notifications.\($0)" }
      if let given = credentials.first(where: { keys.isGiven($0) }) {
        keys.warn(
          "\(given) has no effect without device-notifications.port: device notifications are off", at: given)
      }
    }

    /// Passwords and recipient numbers travel over it.
    private func checkTransport(isPlain: Bool, _ keys: inout ConfigurationReader) {
      guard port != nil, !keys.isGiven("device-notifications.tls.certificate"),
        !keys.isGiven("device-notifications.tls.key")
      else { return }
      if !isPlain {
        keys.fault(
          "device-notifications.port is given: device-notifications.tls.certificate and device-notifications.tls.key are "
            + "needed, or, on loopback, device-notifications.plain: true",
          at: "device-notifications.port")
      } else if !PublicAddress.isLoopback(host) {
        keys.fault(
          "device-notifications.plain is for loopback alone, and device-notifications.host is not: give a certificate",
          at: "device-notifications.plain")
      }
    }
  }
}

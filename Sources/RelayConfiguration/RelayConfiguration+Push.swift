extension RelayConfiguration {
  /// For everything of this relay that pushes.
  package struct Push: Sendable, Equatable {
    /// For waking this relay's own devices.
    package let waking: Waking
    package let endpoints: Endpoints
    /// Patterns of the hosts that this relay's own browsers may be pushed to at; nil for all.
    package let webPushEndpoints: [String]?
    /// Whether WebPush may reach loopback and private addresses, and without TLS.
    package let allowsPrivateWebPush: Bool

    init(_ keys: inout ConfigurationReader) {
      let content = keys.value(
        "push.content", .choice(PushContent.self), default: "wake-up",
        "What pushes to this relay's own devices carry: `wake-up` tells the provider nothing but the time, `envelope` sends "
          + "the message itself, encrypted, where it fits.")
      let pause = keys.value(
        "push.pause-seconds", .seconds(0...3600), default: "10",
        "A device that was woken is not woken again for so long, unless it connects meanwhile.")
      let apns = APNs(&keys, below: "push.apns")
      let fcm = FCM(&keys, below: "push.fcm")
      endpoints = Endpoints(&keys)
      waking = Waking(apns: apns, fcm: fcm, webPush: WebPush(&keys), content: content, pause: pause)
      webPushEndpoints = keys.value(
        "push.webpush.allowed-endpoints", .globs, default: "all",
        "Hosts that browsers of this relay's accounts may be pushed to at, as patterns with `*` and `?`, comma-separated."
      )
      allowsPrivateWebPush = keys.value(
        "push.webpush.allow-private", .boolean, default: "false",
        "Lets WebPush reach loopback and private addresses, and without TLS: for tests, or push services of one's own; "
          + "never where strangers may name the endpoint.")
    }

    /// The addresses of the providers; nil for the provider's own address. All are `https`.
    package struct Endpoints: Sendable, Equatable {
      /// Without a path.
      package let apns: WebURL?
      package let fcm: WebURL?
      package let fcmOAuth: WebURL?
      /// A PEM file of CAs; nil for the system's alone.
      package let trust: String?

      init(_ keys: inout ConfigurationReader) {
        apns = keys.optional(
          "push.endpoints.apns", .secureOrigin, default: "Apple's", "Where APNs is, for tests: `https://HOST[:PORT]`.")
        fcm = keys.optional("push.endpoints.fcm", .secureURL, default: "Google's", "Where FCM is, for tests.")
        fcmOAuth = keys.optional(
          "push.endpoints.fcm-oauth", .secureURL, default: "what the service account says",
          "Where FCM's access tokens come from, for tests.")
        trust = keys.optional(
          "push.endpoints.trust", .path,
          "PEM file of CAs that are trusted beside the system's in all pushes; reloaded when the file changes.")
      }
    }
  }

  /// nil for every provider: nobody is woken.
  package struct Waking: Sendable, Equatable {
    package let apns: APNs?
    package let fcm: FCM?
    package let webPush: WebPush?
    package let content: PushContent
    /// How long a device that was woken is left alone.
    package let pause: Duration
  }

  package struct APNs: Sendable, Equatable {
    package enum Authentication: Sendable, Equatable {
      case token(keyFile: String, keyID: String, teamID: String, topic: String)
      /// - Parameter topic: nil for what the certificate says.
      case certificate(file: String, topic: String?)
    }
    package let authentication: Authentication
    package let isSandbox: Bool

    /// - Returns: nil where nothing is said of Apple's service, or not enough.
    init?(_ keys: inout ConfigurationReader, below section: String) {
      let (key, other) = ("\(section).key-file", "\(section).certificate-file")
      let details = ["key-id", "team-id", "topic"].map { "\(section).\($0)" }
      let keyFile = keys.optional(
        key, .path, "Apple's `.p8` key, with `key-id`, `team-id` and `topic`; reloaded when the file changes.")
      let keyID = keys.optional(details[0], .text, "The id of that key.")
      let teamID = keys.optional(details[1], .text, "The team's id at Apple.")
      let topic = keys.optional(details[2], .text, "The app's bundle id; by default what the certificate says.")
      let certificate = keys.optional(
        other, .path, "In place of a key: PEM of the app's certificate and its key, unencrypted.")
      isSandbox = keys.value(
        "\(section).sandbox", .boolean, default: "false", "Uses Apple's service for apps under development.")
      if keyFile != nil {
        for detail in details { keys.miss(detail, because: "\(key) is given", of: key) }
        if certificate != nil { keys.fault("\(key) and \(other): one of them", at: other) }
      } else if certificate == nil {
        for detail in details where keys.isGiven(detail) {
          keys.fault("\(detail) without \(key) or \(other)", at: detail)
        }
      }
      if let keyFile, let keyID, let teamID, let topic {
        authentication = .token(keyFile: keyFile, keyID: keyID, teamID: teamID, topic: topic)
      } else if let certificate {
        authentication = .certificate(file: certificate, topic: topic)
      } else {
        return nil
      }
    }
  }

  package struct FCM: Sendable, Equatable {
    package let serviceAccountFile: String
    /// nil for what the file says.
    package let projectID: String?

    /// - Returns: nil where nothing is said of Google's service, or not enough.
    init?(_ keys: inout ConfigurationReader, below section: String) {
      let (account, project) = ("\(section).service-account-file", "\(section).project-id")
      let file = keys.optional(
        account, .path, "Google's JSON file of a service account; reloaded when the file changes.")
      projectID = keys.optional(project, .text, default: "what the file says", "The project's id at Google.")
      guard let file else {
        if projectID != nil { keys.fault("\(project) without \(account)", at: project) }
        return nil
      }
      serviceAccountFile = file
    }
  }

  /// How this relay proves itself to push services of browsers.
  package struct WebPush: Sendable, Equatable {
    package let keyFile: String
    package let contact: String

    /// - Returns: nil where nothing is said of it, or not enough.
    init?(_ keys: inout ConfigurationReader) {
      let (key, whom) = ("push.webpush.key-file", "push.webpush.contact")
      let file = keys.optional(
        key, .path,
        "PEM of the P-256 key (VAPID) for browsers of this relay's accounts; reloaded when the file changes.")
      let contact = keys.optional(
        whom, .text, "Whom push services may turn to: `mailto:ADDRESS` or an `https:` URL.")
      if let contact, !contact.hasPrefix("mailto:"), !contact.hasPrefix("https:") {
        keys.fault("\(whom) must begin with `mailto:` or `https:`", at: whom)
      }
      guard let file else {
        if contact != nil { keys.fault("\(whom) without \(key)", at: whom) }
        return nil
      }
      keys.miss(whom, because: "\(key) is given", of: key)
      guard let contact else { return nil }
      (keyFile, self.contact) = (file, contact)
    }
  }
}

/// The content of pushes to this relay's own devices.
package enum PushContent: String, Sendable, CaseIterable {
  /// The message that waits alone, encrypted.
  case envelope
  /// Nothing: the provider learns the time.
  case wakeUp = "wake-up"
}

// By what pushes go out: the sections `apns` and `fcm`, below `push` and below `device-notifications`.

extension RelayConfiguration {
  package struct APNs: Sendable, Equatable {
    package enum Authentication: Sendable, Equatable {
      case token(keyFile: String, keyID: String, teamID: String, topic: String)
      /// - Parameter topic: nil for what the certificate says.
      case certificate(file: String, topic: String?)
    }
    package let authentication: Authentication
    package let isSandbox: Bool
  }

  package struct FCM: Sendable, Equatable {
    package let serviceAccountFile: String
    /// nil for what the file says.
    package let projectID: String?
  }
}

extension RelayConfiguration {
  /// How this relay proves itself to push services of browsers.
  package struct WebPush: Sendable, Equatable {
    package let keyFile: String
    package let contact: String
  }
}

extension RelayConfiguration.WebPush {
  /// - Returns: nil where nothing is said of it, or not enough.
  init?(_ reader: inout ConfigurationReader) {
    let (file, whom) = (reader.value(Keys.webPushKey), reader.value(Keys.webPushContact))
    if let whom, !whom.hasPrefix("mailto:"), !whom.hasPrefix("https:") {
      reader.fault("\(Keys.webPushContact.key.name) must begin with `mailto:` or `https:`", at: Keys.webPushContact.key)
    }
    guard let file else {
      if whom != nil {
        reader.fault(
          "\(Keys.webPushContact.key.name) without \(Keys.webPushKey.key.name)", at: Keys.webPushContact.key)
      }
      return nil
    }
    reader.miss(Keys.webPushContact.key, because: "\(Keys.webPushKey.key.name) is given", of: Keys.webPushKey.key)
    guard let whom else { return nil }
    (keyFile, contact) = (file, whom)
  }
}

/// The keys of a section `apns`.
struct APNsKeys {
  let keyFile: OptionalSetting<String>
  let keyID: OptionalSetting<String>
  let teamID: OptionalSetting<String>
  let topic: OptionalSetting<String>
  let certificateFile: OptionalSetting<String>
  let sandbox: Setting<Bool>
}

extension RelayConfiguration.APNs {
  /// - Returns: nil where nothing is said of Apple's service, or not enough.
  init?(_ keys: APNsKeys, _ reader: inout ConfigurationReader) {
    let (keyFile, certificate) = (reader.value(keys.keyFile), reader.value(keys.certificateFile))
    let (keyID, teamID, topic) = (reader.value(keys.keyID), reader.value(keys.teamID), reader.value(keys.topic))
    isSandbox = reader.value(keys.sandbox)
    let (key, other) = (keys.keyFile.key, keys.certificateFile.key)
    let details = [keys.keyID.key, keys.teamID.key, keys.topic.key]
    if keyFile != nil {
      for detail in details { reader.miss(detail, because: "\(key.name) is given", of: key) }
      if certificate != nil { reader.fault("\(key.name) and \(other.name): one of them", at: other) }
    } else if certificate == nil {
      for detail in details where reader.isGiven(detail) {
        reader.fault("\(detail.name) without \(key.name) or \(other.name)", at: detail)
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

extension RelayConfiguration.FCM {
  /// - Returns: nil where nothing is said of Google's service, or not enough.
  init?(
    serviceAccount: OptionalSetting<String>, projectID project: OptionalSetting<String>,
    _ reader: inout ConfigurationReader
  ) {
    projectID = reader.value(project)
    guard let file = reader.value(serviceAccount) else {
      if projectID != nil { reader.fault("\(project.key.name) without \(serviceAccount.key.name)", at: project.key) }
      return nil
    }
    serviceAccountFile = file
  }
}

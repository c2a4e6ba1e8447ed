import Push
import RelayConfiguration

extension APNsSettings {
  init(_ apns: RelayConfiguration.APNs, _ endpoints: PushEndpoints) {
    let authentication: Authentication =
      switch apns.authentication {
      case .token(let keyFile, let keyID, let teamID, let topic):
        .token(keyFile: keyFile, keyID: keyID, teamID: teamID, topic: topic)
      case .certificate(let file, let topic): .certificate(file: file, topic: topic)
      }
    self.init(
      authentication: authentication,
      endpoint: endpoints.apns ?? (apns.isSandbox ? APNsSettings.sandbox : APNsSettings.production),
      trust: endpoints.trust)
  }
}

extension WebPushSettings {
  init(_ webPush: RelayConfiguration.WebPush, _ push: RelayConfiguration.Push) {
    self.init(
      keyFile: webPush.keyFile, contact: webPush.contact, allowedEndpoints: push.webPushEndpoints,
      allowsPrivate: push.allowsPrivateWebPush, trust: push.endpoints.trust)
  }
}

extension FCMSettings {
  init(_ fcm: RelayConfiguration.FCM, _ endpoints: PushEndpoints, connectionsMax: Int = 20) {
    self.init(
      serviceAccountFile: fcm.serviceAccountFile, projectID: fcm.projectID,
      endpoint: endpoints.fcm ?? FCMSettings.service, tokenEndpoint: endpoints.fcmOAuth, trust: endpoints.trust,
      connectionsMax: connectionsMax)
  }
}

extension PushEndpoints {
  /// `push.endpoints.*` and `push.webpush.allow-private`: for everything of this relay that pushes.
  init(_ settings: RelayConfiguration.Push) {
    self.init()
    apns = settings.endpoints.apns?.text
    fcm = settings.endpoints.fcm?.text
    fcmOAuth = settings.endpoints.fcmOAuth?.text
    trust = settings.endpoints.trust
    allowsPrivate = settings.allowsPrivateWebPush
  }
}

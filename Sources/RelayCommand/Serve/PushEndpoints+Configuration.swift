import Push
import RelayConfiguration

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

import OrderedCollections
package import RelayCore

/// The body of FCM's HTTP v1 request (reference 5.2).
package enum FCMMessage: Sendable, Equatable {
  case send([UInt8])
  case nothing
  case unusableDefault

  /// - Parameter options: the app's `fcm_options`, the base of the message; its `android` is an object where it has
  ///   one.
  package init(_ notification: PushNotification, device: NotifiedDevice, options: JSONObject, sendsCounts: Bool) {
    switch FCMData(notification, device: device, sendsCounts: sendsCounts, .flat) {
    case .unusableDefault: self = .unusableDefault
    case .nothing: self = .nothing
    case .data(let data):
      var message = options
      message["data"] = .object(data)
      var android = options["android"]?.object ?? [:]
      android["priority"] = .text(notification.fcmPriority)
      message["android"] = .object(android)
      message["token"] = .text(device.pushKey)
      self = .send(JSONValue.object(["message": .object(message)]).bytes(.compact))
    }
  }
}

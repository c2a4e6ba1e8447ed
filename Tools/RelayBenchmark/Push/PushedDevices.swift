import Crypto
import RelayCore

/// The provider that the gateway pushes to in a measurement.
extension WakeProvider {
  var title: String {
    switch self {
    case .apns: "APNs, HTTP/2 and a token"
    case .fcm: "FCM, HTTP v1"
    case .webPush: "WebPush, encrypted"
    }
  }
  /// Sygnal's pushes for each CPU second, on another machine: it cannot be had here.
  var sygnal: Double {
    switch self {
    case .apns: 907
    case .fcm: 810
    case .webPush: 489
    }
  }
  var appID: String { "bench.\(word)" }
}

/// As its word.
extension WakeProvider: Encodable {
  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(word)
  }
}

/// The targets of pushes: one installation at each provider.
struct PushedDevices: Sendable {
  private let p256dh = Base64.encodeURLSafe(Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation))
  private let auth = Base64.encodeURLSafe((0..<16).map { _ in UInt8.random(in: 0...255) })
  private let endpoint: String

  /// - Parameter port: of the push service, on loopback.
  init(webPushPort port: Int) { endpoint = "https://127.0.0.1:\(port)/push/subscriber" }

  /// `devices[]` of a notification. - Parameter number: tells several of a request apart.
  func json(_ kind: WakeProvider, _ number: Int = 0) -> String {
    switch kind {
    case .apns: #"{"app_id":"\#(kind.appID)","pushkey":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}"#
    case .fcm: #"{"app_id":"\#(kind.appID)","pushkey":"registration-token-\#(number)"}"#
    case .webPush:
      #"{"app_id":"\#(kind.appID)","pushkey":"\#(p256dh)","data":{"endpoint":"\#(endpoint)","auth":"\#(auth)"}}"#
    }
  }
}

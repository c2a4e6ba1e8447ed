import OrderedCollections
package import Push
package import RelayCore

/// One entry of `push-gateway.apps`: who sends for the apps of a name or a pattern (reference 8).
package struct PushApp: Sendable, Equatable {
  package enum Service: Sendable, Equatable {
    case apns(APNs)
    case fcm(FCM)
    case fcmLegacy(FCMLegacy)
    case webPush(WebPush)
  }

  /// An app id, or a pattern of app ids.
  package let name: String
  /// Pushes under way at one time, waiting ones included; further ones fail at once.
  package var inflightMax = 512
  package let service: Service

  package init(name: String, inflightMax: Int = 512, _ service: Service) {
    self.name = name
    self.inflightMax = inflightMax
    self.service = service
  }

  package struct APNs: Sendable, Equatable {
    package enum Authentication: Sendable, Equatable {
      /// PEM of the certificate and its key; the topic is the certificate's.
      case certificate(file: String)
      case token(keyFile: String, keyID: String, teamID: String, topic: String)
    }
    package let authentication: Authentication
    package var isSandbox = false
    package var pushType: APNsKind?
    package var convertsDeviceToken = true
    package var sendsCounts = true

    package init(_ authentication: Authentication) { self.authentication = authentication }
  }

  package struct FCM: Sendable, Equatable {
    package let projectID: String
    package let serviceAccountFile: String
    package var options: JSONObject = [:]
    package var sendsCounts = true
    package var connectionsMax = 20

    package init(projectID: String, serviceAccountFile: String) {
      self.projectID = projectID
      self.serviceAccountFile = serviceAccountFile
    }
  }

  package struct FCMLegacy: Sendable, Equatable {
    package let key: Secret
    package var options: JSONObject = [:]
    package var sendsCounts = true
    package var connectionsMax = 20

    package init(key: Secret) { self.key = key }
  }

  package struct WebPush: Sendable, Equatable {
    package let keyFile: String
    /// A bare mail address.
    package let contact: String
    /// nil lets all through.
    package var allowedEndpoints: [String]?
    package var ttl = Duration.seconds(900)
    package var connectionsMax = 20

    package init(keyFile: String, contact: String) {
      self.keyFile = keyFile
      self.contact = contact
    }
  }
}

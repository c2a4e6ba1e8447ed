import CampaignModel
import Foundation
import Synchronization
import TestSupport

/// Google's stand-in, which the operators of a campaign push to.
final class CampaignPushes: Sendable {
  private let files: PushFiles
  private let fcm: FakeFCM
  /// A field: Swift wraps a function that is a mutex's whole value once more each time that it is taken out.
  private struct Hearer {
    var call: (@Sendable (DeviceIndex) -> Void)?
  }
  private let hearer = Mutex(Hearer())
  /// The first requests are kept, for whoever looks for an error.
  private static let requestsMax = 100

  private init() async throws {
    files = try PushFiles()
    fcm = try await FakeFCM(files, key: try files.makeServiceAccount())
    fcm.service.answerAlways(requestsMax: Self.requestsMax) { [weak self] request in
      if let message = request.json["message"] as? [String: Any], let token = message["token"] as? String,
        let index = Int(token.dropFirst(Self.prefix.count))
      {
        self?.hearer.withLock { $0.call }?(DeviceIndex(index))
      }
      return .answer(200, #"{"name":"projects/\#(PushFiles.project)/messages/0:1"}"#)
    }
  }

  static func with<Result: Sendable>(_ body: (CampaignPushes) async throws -> Result) async throws -> Result {
    let pushes = try await CampaignPushes()
    do {
      let result = try await body(pushes)
      try await pushes.fcm.close()
      return result
    } catch {
      try await pushes.fcm.close()
      throw error
    }
  }

  /// Is told of each push that is taken, by whatever operator.
  func whenPushed(_ handler: @escaping @Sendable (DeviceIndex) -> Void) { hearer.withLock { $0.call = handler } }

  /// The relays' configuration for it.
  var settings: [String: String] {
    [
      "RELAY_PUSH_ENDPOINTS_FCM": fcm.url, "RELAY_PUSH_ENDPOINTS_FCM_OAUTH": fcm.tokenURL,
      "RELAY_PUSH_ENDPOINTS_TRUST": files.trust, "RELAY_PUSH_FCM_SERVICE_ACCOUNT_FILE": files.serviceAccount,
    ]
  }

  private static let prefix = "campaign-"
  /// The token that `device` registers with its relay.
  static func token(of device: DeviceIndex) -> String { "\(prefix)\(device.rawValue)" }
}

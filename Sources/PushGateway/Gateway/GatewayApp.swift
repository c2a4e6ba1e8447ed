package import Push
import Synchronization

/// An entry that is being served: its way to the provider, and how much of it is under way.
package final class GatewayApp: Sendable {
  package let app: PushApp
  package let lane: PushLane
  /// How the pauses between the requests of one push pass.
  let time: PushTime
  let metrics: GatewayAppMetrics
  private let underWay = Mutex(0)

  package init(_ app: PushApp, lane: PushLane, time: PushTime = .system) {
    self.app = app
    self.lane = lane
    self.time = time
    metrics = GatewayAppMetrics(app)
  }

  /// Runs `push` unless as many are under way as may be (reference 9).
  func within(_ push: () async -> DeviceOutcome) async -> DeviceOutcome {
    guard enter() else {
      metrics.overloaded()
      return .failed(.overloaded)
    }
    defer { underWay.withLock { $0 -= 1 } }
    return await push()
  }

  /// When the certificate ends, for entries that have one.
  func showExpiry() {
    guard case .apns(let apns) = app.service, case .certificate = apns.authentication,
      let expires = lane.credentialsExpire
    else { return }
    metrics.show(expires: expires)
  }

  private func enter() -> Bool {
    underWay.withLock { count in
      guard count < app.inflightMax else { return false }
      count += 1
      return true
    }
  }
}

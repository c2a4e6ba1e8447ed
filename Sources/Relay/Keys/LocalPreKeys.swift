import Metrics
package import RelayCore
import RelayMetrics

/// Hands out prekeys of this relay's accounts, to clients and peers alike (reference 1.6, 1.7).
///
/// A device's one-time keys are its owner's supply. So all requesters and peers together take them at a limited pace;
/// beyond it the last resort serves. No requester can drain the supply, or keep others from a session (reference Part
/// 6, 9).
package struct LocalPreKeys: PreKeyDispenser {
  private let store: any PreKeyStore
  private let accounts: AccountCache
  private let restores: RestoreGuard
  private let clock: WallClock
  private let limited = RelayMetric.keys.limited.counter()
  private let heldBack = RelayMetric.keys.heldBack.counter()

  package init(store: any PreKeyStore, accounts: AccountCache, restores: RestoreGuard, clock: WallClock) {
    self.store = store
    self.accounts = accounts
    self.restores = restores
    self.clock = clock
  }

  package func draw(
    from number: AccountNumber, devices: DeviceSelector, version: PreKeyVersion,
    paying pay: (PreKeyDrawCost) async throws(Problem) -> [LimitDecision]
  ) async throws(Problem) -> [DrawnPreKey] {
    let chosen = try await activeDevices(of: number, devices)
    // Before the payment: one call charges the requester and all that he takes.
    let epoch = chosen.isEmpty ? nil : await restores.permit()
    let targets = epoch == nil ? [] : chosen.map { Self.target(DeviceAddress(number, $0)) }
    let decisions = try await pay(PreKeyDrawCost(keys: chosen.count, targets: targets))
    guard !chosen.isEmpty else { throw Problem(.notFound) }
    if epoch == nil { heldBack.increment(by: chosen.count) }
    let oneTime = zip(chosen, decisions).filter { $1 == .allowed }.map(\.0)
    if oneTime.count < targets.count { limited.increment(by: targets.count - oneTime.count) }
    let drawn = try await take(number, chosen, oneTime: oneTime, epoch: epoch ?? 0)
    let shown = version == .one ? drawn.filter { $0.preKey != nil } : drawn
    guard !shown.isEmpty else { throw Problem(.notFound) }
    return shown
  }

  /// The active devices that `devices` selects; none of an account that is not active.
  private func activeDevices(
    of number: AccountNumber, _ devices: DeviceSelector
  ) async throws(Problem) -> [DeviceID] {
    let now = clock.now()
    guard let account = try await accounts.lookUp(number), account.isActive(at: now) else { return [] }
    let active = account.activeDevices(at: now).map(\.id)
    return switch devices {
    case .all: active
    case .one(let id): active.filter { $0 == id }
    }
  }

  private func take(
    _ number: AccountNumber, _ devices: [DeviceID], oneTime: [DeviceID], epoch: Int64
  ) async throws(Problem) -> [DrawnPreKey] {
    do throws(StoreError) {
      let drawn = try await store.drawPreKeys(of: number, devices: devices, oneTime: oneTime, epoch: epoch)
      if !oneTime.isEmpty { restores.drew() }
      return drawn
    } catch {
      restores.storeFailed()
      throw Problem(error)
    }
  }

  private static func target(_ device: DeviceAddress) -> LimitCharge {
    LimitCharge(1, from: .preKeysTarget, key: LimitKey(device))
  }
}

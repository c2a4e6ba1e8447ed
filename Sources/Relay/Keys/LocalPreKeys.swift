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
  private let limiter: any RateLimiter
  private let restores: RestoreGuard
  private let clock: WallClock
  private let limited = RelayMetric.keys.limited.counter()
  private let heldBack = RelayMetric.keys.heldBack.counter()

  package init(
    store: any PreKeyStore, accounts: AccountCache, limiter: any RateLimiter, restores: RestoreGuard, clock: WallClock
  ) {
    self.store = store
    self.accounts = accounts
    self.limiter = limiter
    self.restores = restores
    self.clock = clock
  }

  package func draw(from number: AccountNumber, devices: DeviceSelector, version: PreKeyVersion)
    async throws(Problem) -> [DrawnPreKey]
  {
    let chosen = try await activeDevices(of: number, devices)
    guard !chosen.isEmpty else { throw Problem(.notFound) }
    let drawn = try await take(number, chosen)
    let shown = version == .one ? drawn.filter { $0.preKey != nil } : drawn
    guard !shown.isEmpty else { throw Problem(.notFound) }
    return shown
  }

  package func keysMax(of number: AccountNumber, devices: DeviceSelector) async throws(Problem) -> Int {
    try await activeDevices(of: number, devices).count
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

  private func take(_ number: AccountNumber, _ devices: [DeviceID]) async throws(Problem) -> [DrawnPreKey] {
    let epoch = await restores.permit()
    if epoch == nil { heldBack.increment(by: devices.count) }
    let oneTime = epoch == nil ? [] : await devicesWithinLimit(number, devices)
    do throws(StoreError) {
      let drawn = try await store.drawPreKeys(of: number, devices: devices, oneTime: oneTime, epoch: epoch ?? 0)
      if !oneTime.isEmpty { restores.drew() }
      return drawn
    } catch {
      restores.storeFailed()
      throw Problem(error)
    }
  }

  /// The devices among `devices` whose one-time keys may be taken just now.
  private func devicesWithinLimit(_ number: AccountNumber, _ devices: [DeviceID]) async -> [DeviceID] {
    var allowed: [DeviceID] = []
    for device in devices {
      if await limiter.take(1, from: .preKeysTarget, key: LimitKey(DeviceAddress(number, device))) == .allowed {
        allowed.append(device)
      } else {
        limited.increment()
      }
    }
    return allowed
  }
}

package import RelayCore

/// Hands out prekeys of this relay's accounts, to clients and peers alike (reference 1.6).
package struct LocalPreKeys: PreKeyDispenser {
  private let store: any PreKeyStore
  private let accounts: AccountCache
  private let clock: WallClock

  package init(store: any PreKeyStore, accounts: AccountCache, clock: WallClock) {
    self.store = store
    self.accounts = accounts
    self.clock = clock
  }

  package func draw(from number: AccountNumber, devices: DeviceSelector) async throws(Problem) -> [DrawnPreKey] {
    let now = clock.now()
    guard let account = try await accounts.lookUp(number), account.isActive(at: now) else { throw Problem(.notFound) }
    let chosen: [DeviceID]
    switch devices {
    case .all: chosen = account.activeDevices(at: now).map(\.id)
    case .one(let id): chosen = account.activeDevices(at: now).map(\.id).filter { $0 == id }
    }
    guard !chosen.isEmpty else { throw Problem(.notFound) }
    let drawn = try await take(number, chosen)
    guard !drawn.isEmpty else { throw Problem(.notFound) }
    return drawn
  }

  private func take(_ number: AccountNumber, _ devices: [DeviceID]) async throws(Problem) -> [DrawnPreKey] {
    do throws(StoreError) {
      return try await store.drawPreKeys(of: number, devices: devices)
    } catch {
      throw Problem(error)
    }
  }
}

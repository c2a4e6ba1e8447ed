package import RelayCore
import RelayWork
import Synchronization

/// Accounts as last read, kept while signals of change arrive.
///
/// Every request looks its caller and its destination up. An entry lives until its account changes anywhere, the
/// signal bus connects or disconnects, or `lifetime` passes, whichever comes first. Without a connected bus an entry
/// lives for `awayLifetime`: an outage of Redis must not become one of the store, which would have to answer several
/// more reads a submission. An account that does not exist is not kept then, since another process may register it at
/// any moment; and nobody is refused by an entry that may lack another process's change (`isDated`).
package final class AccountCache: Sendable {
  fileprivate struct Entry {
    /// nil when there is no such account, which peers' messages ask for each time.
    let account: Account?
    let loaded: ContinuousClock.Instant
  }
  fileprivate struct State {
    var entries: TwoGenerations<AccountNumber, Entry>
    var isConnected = false
    /// Counts what was forgotten: a read that began before must not be kept after.
    var epoch: UInt64 = 0
  }

  private let store: any AccountStore
  private let bus: any SignalBus
  private let lifetime: Duration
  private let awayLifetime: Duration
  private let state: Mutex<State>

  /// - Parameters:
  ///   - capacity: accounts held at most.
  ///   - lifetime: bounds how long a change may go unseen if its signal was never sent.
  ///   - awayLifetime: the same while no signals arrive.
  package init(
    store: any AccountStore, bus: any SignalBus, capacity: Int = 100_000, lifetime: Duration = .seconds(60),
    awayLifetime: Duration = .seconds(1)
  ) {
    self.store = store
    self.bus = bus
    state = Mutex(State(entries: TwoGenerations(capacity: capacity)))
    self.lifetime = lifetime
    self.awayLifetime = awayLifetime
    bus.listen { [weak self] event in self?.receive(event) }
  }

  /// - Returns: the account as it was at most `lifetime` ago, and after any change whose signal has arrived; while no
  ///   signals arrive, as it was at most `awayLifetime` ago.
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    try await reading(of: number).account
  }

  /// - Returns: as `account(_:)`, and whether it is remembered and a change may be missing.
  func reading(of number: AccountNumber) async throws(StoreError) -> (account: Account?, isDated: Bool) {
    let now = ContinuousClock.now
    let (cached, isConnected) = state.withLock { state in
      let oldest = now - (state.isConnected ? lifetime : awayLifetime)
      return (state.find(number, newerThan: oldest), state.isConnected)
    }
    if let cached { return (cached.account, isDated: !isConnected) }
    return (try await read(number), isDated: false)
  }

  /// Reads the account from the store, and remembers it.
  func read(_ number: AccountNumber) async throws(StoreError) -> Account? {
    let now = ContinuousClock.now
    let epoch = state.withLock(\.epoch)
    let account = try await store.account(number)
    state.withLock { state in
      guard state.isConnected || account != nil, state.epoch == epoch else { return }
      state.entries.insert(Entry(account: account, loaded: now), for: number)
    }
    return account
  }

  /// Forgets the account here at once and on every other process by signal. Called after each change.
  package func changed(_ number: AccountNumber) async {
    forget(number)
    await bus.publish(.accountChanged(number))
  }

  private func forget(_ number: AccountNumber) {
    state.withLock { state in
      state.epoch &+= 1
      state.entries.removeValue(forKey: number)
    }
  }

  private func receive(_ event: SignalEvent) {
    switch event {
    case .signal(.accountChanged(let number)): forget(number)
    case .signal(.peersChanged), .signal(.contactsChanged), .signal(.wakesAsked): break
    case .connected, .disconnected:
      state.withLock { state in
        state.epoch &+= 1
        state.entries.removeAll()
        state.isConnected = event == .connected
      }
    }
  }
}

extension AccountCache.State {
  fileprivate mutating func find(
    _ number: AccountNumber, newerThan limit: ContinuousClock.Instant
  ) -> AccountCache.Entry? {
    if let entry = entries.young[number] { return entry.loaded > limit ? entry : nil }
    guard let entry = entries.old[number], entry.loaded > limit else { return nil }
    entries.insert(entry, for: number)
    return entry
  }
}

// Changes of accounts, and what every process is told of them.

extension AccountCache {
  /// Runs a change of the account whose outcome the caller looks at: if it changed anything, it calls `changed`.
  ///
  /// After a failure everyone reads the account anew: a commit whose answer was lost may have changed it all the same.
  func attempt<Outcome>(_ number: AccountNumber, _ change: () async throws(StoreError) -> Outcome)
    async throws(Problem) -> Outcome
  {
    do throws(StoreError) {
      return try await change()
    } catch {
      await changed(number)
      throw Problem(error)
    }
  }

  /// Applies `change` to a device that has proved itself.
  /// - Throws: `.unauthorized` when it was removed since.
  func update(_ device: DeviceAddress, _ change: DeviceChange, in store: any AccountStore) async throws(Problem) {
    let isStored = try await attempt(device.account) { () async throws(StoreError) in
      try await store.updateDevice(device, change)
    }
    await changed(device.account)
    guard isStored else { throw Problem(.unauthorized) }
  }
}

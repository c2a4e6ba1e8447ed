package import RelayCore
import RelayWork
import Synchronization

/// Accounts as last read, kept while signals of change arrive.
///
/// Every request looks its caller and its destination up. An entry lives until its account changes anywhere, the
/// signal bus connects or disconnects, or `lifetime` passes, whichever comes first. Without a connected bus an entry
/// lives for `awayLifetime`: an outage of Redis must not become one of the store, which would have to answer several
/// more reads a submission. An account that does not exist is not kept then, since another process may register it at
/// any moment. An entry that may lack another process's change (`isDated`) refuses nobody: a signal takes a moment too,
/// and a client that was just registered or linked elsewhere would take the refusal for its end. An entry that was read
/// for such a doubt is trusted for `doubtInterval`.
package final class AccountCache: Sendable {
  fileprivate struct Entry {
    /// nil when there is no such account, which peers' messages ask for each time.
    var account: Account?
    let loaded: ContinuousClock.Instant
    /// The read was made because the entry before it would have refused somebody.
    let isDoubt: Bool
  }
  /// The accounts of a read that are remembered: all, or those that are remembered already.
  fileprivate enum Kept { case all, remembered }
  fileprivate struct State {
    var entries: TwoGenerations<AccountNumber, Entry>
    var isConnected = false
    var forgotten = ForgottenAccounts()
  }

  private let store: any AccountStore
  private let bus: any SignalBus
  private let lifetime: Duration
  private let awayLifetime: Duration
  private let doubtInterval: Duration
  private let state: Mutex<State>
  private let doubtfulReads: DoubtfulReads

  /// - Parameters:
  ///   - capacity: accounts held at most.
  ///   - lifetime: bounds how long a change may go unseen if its signal was never sent.
  ///   - awayLifetime: the same while no signals arrive.
  ///   - doubtInterval: between two reads of an account that wrong credentials ask for, while signals arrive.
  package init(
    store: any AccountStore, bus: any SignalBus, capacity: Int = 100_000, lifetime: Duration = .seconds(60),
    awayLifetime: Duration = .seconds(1), doubtInterval: Duration = .seconds(1)
  ) {
    self.store = store
    self.bus = bus
    state = Mutex(State(entries: TwoGenerations(capacity: capacity)))
    self.lifetime = lifetime
    self.awayLifetime = awayLifetime
    self.doubtInterval = doubtInterval
    doubtfulReads = DoubtfulReads { numbers throws(StoreError) in try await store.accounts(numbers) }
    bus.listen { [weak self] event in self?.receive(event) }
  }

  /// - Returns: the account as it was at most `lifetime` ago, and after any change whose signal has arrived; while no
  ///   signals arrive, as it was at most `awayLifetime` ago.
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    try await reading(of: number).account
  }

  /// - Returns: as `account(_:)`, and whether it is remembered, a change may be missing, and a read may find it.
  func reading(of number: AccountNumber) async throws(StoreError) -> (account: Account?, isDated: Bool) {
    let now = ContinuousClock.now
    let (cached, isConnected) = state.withLock { state in
      let oldest = now - (state.isConnected ? lifetime : awayLifetime)
      return (state.find(number, newerThan: oldest), state.isConnected)
    }
    guard let cached else {
      let account = try await remembering(number, isDoubt: false) { () async throws(StoreError) in
        try await store.account(number)
      }
      return (account, isDated: false)
    }
    // Wrong credentials are cheap to send: those for one account do not cost the store a read each.
    return (cached.account, isDated: !isConnected || !cached.isDoubt || cached.loaded + doubtInterval <= now)
  }

  /// Reads the account from the store, since what is remembered would refuse somebody, and remembers it.
  func readInDoubt(_ number: AccountNumber) async throws(StoreError) -> Account? {
    try await remembering(number, isDoubt: true) { () async throws(StoreError) in
      try await doubtfulReads.account(number)
    }
  }

  private func remembering(
    _ number: AccountNumber, isDoubt: Bool, _ read: () async throws(StoreError) -> Account?
  ) async throws(StoreError) -> Account? {
    let now = ContinuousClock.now
    let begun = state.withLock(\.forgotten.mark)
    let account = try await read()
    state.withLock { state in
      guard state.forgotten.isCurrent(number, readSince: begun) else {
        // The account may be old by now, and so may the entry before it.
        _ = state.entries.removeValue(forKey: number)
        return
      }
      state.keep(Entry(account: account, loaded: now, isDoubt: isDoubt), of: number, .all)
    }
    return account
  }

  /// The accounts of many numbers as `account` has them: those that are not remembered are read in one statement.
  /// - Parameter numbers: some hundred at most.
  func accounts(_ numbers: Set<AccountNumber>) async -> ManyAccounts {
    let now = ContinuousClock.now
    let remembered = state.withLock { state in
      let oldest = now - (state.isConnected ? lifetime : awayLifetime)
      return numbers.compactMap { number in
        state.find(number, newerThan: oldest).map { (number: number, account: $0.account) }
      }
    }
    var many = ManyAccounts()
    for account in remembered.lazy.compactMap(\.account) { many.add(account) }
    many.add(await read(Array(numbers.subtracting(remembered.lazy.map(\.number)))[...], keeping: .all))
    return many
  }

  /// Reads the accounts of many numbers from the store, in one statement. Entries of remembered accounts are
  /// renewed; no others are remembered, since connections that do nothing would drive out those that are in use.
  /// - Parameter numbers: some hundred at most.
  func readAgain(_ numbers: Set<AccountNumber>) async -> ManyAccounts {
    await read(Array(numbers)[...], keeping: .remembered)
  }

  private func read(_ numbers: ArraySlice<AccountNumber>, keeping kept: Kept) async -> ManyAccounts {
    var many = ManyAccounts()
    guard !numbers.isEmpty else { return many }
    let now = ContinuousClock.now
    let begun = state.withLock(\.forgotten.mark)
    do throws(StoreError) {
      for account in try await store.accounts(Array(numbers)) { many.add(account) }
    } catch .corrupted where numbers.count > 1 {
      // Something of one of them: it hides none of the others for good.
      let middle = numbers.startIndex + numbers.count / 2
      many.add(await read(numbers[..<middle], keeping: kept))
      many.add(await read(numbers[middle...], keeping: kept))
      return many
    } catch {
      many.add(unread: numbers)
      return many
    }
    state.withLock { state in
      for number in numbers where state.forgotten.isCurrent(number, readSince: begun) {
        state.keep(Entry(account: many.found[number], loaded: now, isDoubt: false), of: number, kept)
      }
    }
    return many
  }

  /// The store has noted that `devices` were seen on `day`. No other process needs to hear of it: what they remember is
  /// no older than `lifetime`.
  func seen(_ devices: [DeviceAddress], on day: Timestamp) {
    state.withLock { state in for device in devices { state.seen(device, on: day) } }
  }

  /// Forgets the account here at once and on every other process by signal. Called after each change.
  package func changed(_ number: AccountNumber) async {
    forget(number)
    await bus.publish(.accountChanged(number))
  }

  private func forget(_ number: AccountNumber) {
    state.withLock { state in
      state.forgotten.forget(number)
      state.entries.removeValue(forKey: number)
    }
  }

  private func receive(_ event: SignalEvent) {
    switch event {
    case .signal(.accountChanged(let number)): forget(number)
    case .signal(.peersChanged), .signal(.contactsChanged), .signal(.wakesAsked): break
    case .connected, .disconnected:
      state.withLock { state in
        state.forgotten.forgetAll()
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

  /// An account that does not exist is not remembered while no signals arrive.
  fileprivate mutating func keep(_ entry: AccountCache.Entry, of number: AccountNumber, _ kept: AccountCache.Kept) {
    guard isConnected || entry.account != nil else { return }
    switch kept {
    case .all: entries.insert(entry, for: number)
    case .remembered: entries.updateExisting(number) { $0 = entry }
    }
  }

  fileprivate mutating func seen(_ device: DeviceAddress, on day: Timestamp) {
    entries.updateExisting(device.account) { entry in
      guard let place = entry.account?.devices.firstIndex(where: { $0.id == device.device }) else { return }
      entry.account?.devices[place].lastSeen = day
    }
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

/// The accounts of many numbers, as the store has them.
struct ManyAccounts: Sendable {
  private(set) var found: [AccountNumber: Account] = [:]
  /// The numbers of which nothing can be said now: the store was away, or what it has of them is damaged. All others
  /// that are not found have no account.
  private(set) var unread: Set<AccountNumber> = []

  mutating func add(_ account: Account) { found[account.number] = account }

  mutating func add(unread numbers: some Sequence<AccountNumber>) { unread.formUnion(numbers) }

  mutating func add(_ others: ManyAccounts) {
    found.merge(others.found) { $1 }
    unread.formUnion(others.unread)
  }
}

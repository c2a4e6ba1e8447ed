import Logging
import RelayCore
import Synchronization

/// Accepts everything and remembers it.
final class RecordingIntake: Intake {
  struct Call: Sendable, Equatable {
    let submission: Submission
    let origin: Origin
  }
  struct Receipt: Sendable, Equatable {
    let timestamp: Timestamp
    let destination: AccountNumber
    let origin: Origin
  }
  private struct State {
    var calls: [Call] = []
    var receipts: [Receipt] = []
    var undeliverable: [PeerSubmission] = []
    var refusal: Problem?
    var refusals: [AccountNumber: Problem] = [:]
    var hasRoom = true
  }
  private let state = Mutex(State())
  private let isHolding = Mutex(false)

  var calls: [Call] { state.withLock { $0.calls } }
  var receipts: [Receipt] { state.withLock { $0.receipts } }
  var undeliverable: [PeerSubmission] { state.withLock { $0.undeliverable } }
  /// While it holds, nothing is answered.
  func hold(_ holds: Bool) { isHolding.withLock { $0 = holds } }
  func refuse(with problem: Problem?) { state.withLock { $0.refusal = problem } }
  func refuse(_ destination: AccountNumber, with problem: Problem) {
    state.withLock { $0.refusals[destination] = problem }
  }

  func accept(
    _ submission: Submission, marks: [CrossingMark], from origin: Origin
  ) async throws(Problem) -> Acceptance {
    let refusal = state.withLock { state in
      state.calls.append(Call(submission: submission, origin: origin))
      return state.refusals[submission.destination] ?? state.refusal
    }
    while isHolding.withLock({ $0 }), !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(5))  // Throws when cancelled, which the condition sees.
    }
    if let refusal { throw refusal }
    return Acceptance(needsSync: false)
  }

  func acceptReceipt(
    for timestamp: Timestamp, mark: CrossingMark?, to destination: AccountNumber, from origin: Origin
  ) async throws(Problem) {
    let refusal = state.withLock { state in
      state.receipts.append(Receipt(timestamp: timestamp, destination: destination, origin: origin))
      return state.refusal
    }
    if let refusal { throw refusal }
  }

  /// Whether senders have room for the word of what cannot be delivered.
  func hasRoom(_ hasRoom: Bool) { state.withLock { $0.hasRoom = hasRoom } }

  func reportUndeliverable(_ message: PeerSubmission) async throws(Problem) -> Bool {
    state.withLock { state in
      if state.hasRoom { state.undeliverable.append(message) }
      return state.hasRoom
    }
  }
}

/// Hands the same keys to everyone who asks for the one account it knows: device 1 has everything, device 2 no signed
/// prekey, device 3 nothing else.
final class FixedDispenser: PreKeyDispenser {
  static let account = AccountNumber(e164: "+14155550100")
  static let keys = [1, 2, 3].compactMap { DeviceID($0) }.map {
    DrawnPreKey(
      device: $0, registrationID: 100 + $0.value, identityKey: "identity",
      preKey: $0.value == 3 ? nil : PreKey(keyID: Int64($0.value) * 7, publicKey: "public"),
      signedPreKey: $0.value == 2 ? nil : SignedPreKey(keyID: 5, publicKey: "signed", signature: "signature"))
  }

  private let asked = Mutex(0)
  private let isHolding = Mutex(false)

  /// How often anything was asked for.
  var draws: Int { asked.withLock { $0 } }
  /// While it holds, nothing is answered.
  func hold(_ holds: Bool) { isHolding.withLock { $0 = holds } }

  func draw(
    from account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion,
    paying pay: (PreKeyDrawCost) async throws(Problem) -> [LimitDecision]
  ) async throws(Problem) -> [DrawnPreKey] {
    asked.withLock { $0 += 1 }
    while isHolding.withLock({ $0 }), !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(5))  // Throws when cancelled, which the condition sees.
    }
    let chosen = account == Self.account ? Self.keys.filter { devices == .all || devices == .one($0.device) } : []
    _ = try await pay(PreKeyDrawCost(keys: chosen.count, targets: []))
    let keys = chosen.filter { version == .two || $0.preKey != nil }
    guard !keys.isEmpty else { throw Problem(.notFound) }
    return keys
  }
}

/// Says of every blob that it lies at one place, or whatever a test wants said.
final class FixedLocator: AttachmentLocator {
  private let answer = Mutex<Result<String, Problem>>(.success("https://blobs.example/7?signature=a%2Fb&x=1"))

  func answer(with result: Result<String, Problem>) { answer.withLock { $0 = result } }

  func downloadURL(of id: AttachmentID) async throws(Problem) -> String { try answer.withLock { $0 }.get() }
}

/// A listing of accounts in memory, of any size at no cost, and whatever peers claim.
final class ListedAccounts: DirectoryStore {
  private struct State {
    var accounts: [ListedAccount]
    var revision: Int64 = 1
    var claimants: [ContactToken: [RelayName]] = [:]
    var claimantsAsked = 0
    var pagesRead = 0
    var cursorsRead = 0
    var changesRead = 0
    var counts = 0
    var isAway = false
  }
  private let state: Mutex<State>
  private let isHolding = Mutex(false)

  init(_ accounts: [ListedAccount] = []) { state = Mutex(State(accounts: accounts)) }

  func replace(with accounts: [ListedAccount]) {
    state.withLock { state in
      state.accounts = accounts
      state.revision += 1
    }
  }

  /// From now on `relays` list the account.
  func claim(_ token: ContactToken, by relays: [RelayName]) { state.withLock { $0.claimants[token] = relays } }
  /// How often anyone asked who lists an account.
  var claimantsAsked: Int { state.withLock { $0.claimantsAsked } }
  var pagesRead: Int { state.withLock { $0.pagesRead } }
  /// How often anyone asked what has changed.
  var changesRead: Int { state.withLock { $0.changesRead } }
  /// How often anyone asked where the listing ends.
  var cursorsRead: Int { state.withLock { $0.cursorsRead } }
  var counts: Int { state.withLock { $0.counts } }
  /// While it holds, no page is handed out.
  func hold(_ holds: Bool) { isHolding.withLock { $0 = holds } }
  /// While it is away it says nothing of claimants, and not where the listing ends.
  func isAway(_ isAway: Bool) { state.withLock { $0.isAway = isAway } }

  func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName] {
    let claimants = state.withLock { state in
      state.claimantsAsked += 1
      return state.isAway ? nil : state.claimants[token] ?? []
    }
    guard let claimants else { throw .unavailable(reason: "away") }
    return claimants
  }

  func accountCount() async throws(StoreError) -> Int {
    state.withLock { state in
      state.counts += 1
      return state.accounts.count
    }
  }
  func accountsRevision() async throws(StoreError) -> Int64 { state.withLock { $0.revision } }
  func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount] {
    let page = state.withLock { state in
      state.pagesRead += 1
      return Array(state.accounts.dropFirst(offset).prefix(limit))
    }
    while isHolding.withLock({ $0 }), !Task.isCancelled {
      try? await Task.sleep(for: .milliseconds(5))  // Throws when cancelled, which the condition sees.
    }
    return page
  }

  func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry] { [] }
  func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64? { nil }
  func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError) {}
  func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError) {}
  func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?) { (0, nil) }
  func listingCursor() async throws(StoreError) -> ListingCursor {
    let (revision, isAway) = state.withLock { state in
      state.cursorsRead += 1
      return (state.revision, state.isAway)
    }
    guard !isAway else { throw .unavailable(reason: "away") }
    return ListingCursor(generation: 1, revision: revision)
  }
  /// Keeps no feed: whoever is not at its end begins anew.
  func listingChanges(after cursor: ListingCursor, limit: Int) async throws(StoreError) -> ListingChanges? {
    state.withLock { $0.changesRead += 1 }
    let newest = try await listingCursor()
    return cursor == newest ? ListingChanges(accounts: [], cursor: newest, isPartial: false) : nil
  }
  func applyContactChanges(_ changes: [ListedAccount], of peer: RelayName, mark: String) async throws(StoreError) {}
  func keptContacts(among tokens: [ContactToken], of peer: RelayName) async throws(StoreError) -> Set<ContactToken> {
    []
  }
  func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts { .none }
  func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError) {}
  func recountContacts(of peer: RelayName) async throws(StoreError) {}
  func localEntries(for tokens: [ContactToken]) async throws(StoreError) -> [ListedAccount] {
    state.withLock { $0.accounts.filter { tokens.contains($0.token) && !$0.isInactive } }
  }
}

/// Remembers what was logged.
final class LogRecorder: Sendable {
  private let lines = Mutex<[String]>([])

  func contains(_ text: String) -> Bool { lines.withLock { $0.contains { $0.contains(text) } } }
  var all: [String] { lines.withLock { $0 } }

  var logger: Logger {
    Logger(label: "test") { _ in Handler(recorder: self) }
  }

  fileprivate func append(_ line: String) { lines.withLock { $0.append(line) } }

  private struct Handler: LogHandler {
    let recorder: LogRecorder
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      let merged = metadata.merging(event.metadata ?? [:]) { _, new in new }
      recorder.append("\(event.level) \(event.message) \(merged)")
    }
  }
}

/// Knows every message, for tests of what else becomes of a receipt.
struct EverythingHandedOver: HandOverStore {
  func record(_ record: LedgerRecord) async throws(StoreError) {}
  func ledger(of relay: RelayName, in hours: ClosedRange<LedgerHour>) async throws(StoreError) -> [LedgerEntry] { [] }
  func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool { true }
}

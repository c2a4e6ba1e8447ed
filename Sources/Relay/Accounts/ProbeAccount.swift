import Crypto
package import RelayCore

/// The account that this relay keeps for tests of its peerings (docs/federation.md, "The probe account"): a real one,
/// with keys and a mailbox, to which no one can log in.
///
/// Its number begins with 999, an unassigned country code, and follows from the relay's name: every process, and
/// every command, has the same one. The private halves of its keys are not kept: messages to it only have to arrive.
package struct ProbeAccount: ProbeHost {
  private let name: RelayName
  private let store: any AccountStore & PreKeyStore & MessageStore
  private let accounts: AccountCache
  private let clock: WallClock

  package init(
    name: RelayName, store: any AccountStore & PreKeyStore & MessageStore, accounts: AccountCache, clock: WallClock
  ) {
    self.name = name
    self.store = store
    self.accounts = accounts
    self.clock = clock
  }

  /// 999 and 12 digits of SHA-256 of the name.
  package static func number(of relay: RelayName) -> AccountNumber? {
    let digest = SHA256.hash(data: Array(relay.text.utf8))
    let value = digest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) } % 1_000_000_000_000
    return AccountNumber(digits: 999_000_000_000_000 + Int64(value))
  }

  package func prepare() async throws(Problem) -> AccountNumber {
    // There is one for every name.
    guard let number = Self.number(of: name) else { throw Problem(.internalError) }
    do throws(StoreError) {
      if try await store.account(number)?.isActive(at: clock.now()) != true { try await register(number) }
      let device = DeviceAddress(number, .master)
      if try await store.preKeyCount(of: device) < Self.oneTimeKeysMin {
        // The identity stays: who has drawn a key before finds the same account.
        let identityKey = try await store.account(number)?.identityKey ?? Self.publicKey()
        _ = try await store.replacePreKeys(of: device, with: Self.keys(identityKey))
      }
      // A command in another process may have made it, and sends no signals.
      if try await accounts.account(number) == nil { await accounts.changed(number) }
    } catch {
      // A commit whose answer was lost may have made it all the same.
      await accounts.changed(number)
      throw Problem(error)
    }
    return number
  }

  package func collect(from relay: RelayName) async throws(Problem) -> [Timestamp] {
    guard let number = Self.number(of: name) else { throw Problem(.internalError) }
    let mailbox = DeviceAddress(number, .master)
    var received: [Timestamp] = []
    var (reached, looked) = (Int64(0), 0)
    do throws(StoreError) {
      while looked < Self.envelopesMax {
        let page = try await store.pending(in: mailbox, after: reached, limit: Self.pageMax)
        guard let last = page.last else { break }
        let due = page.filter { isDue($0.envelope, from: relay, at: clock.now()) }
        let removed = try await store.remove(
          due.map { MailboxRemoval(MailboxPlace(mailbox, sequence: $0.sequence), receipt: nil) })
        for queued in due where queued.envelope.relay == relay {
          if removed.contains(MailboxPlace(mailbox, sequence: queued.sequence)) {
            received.append(queued.envelope.timestamp)
          }
        }
        (reached, looked) = (last.sequence, looked + page.count)
      }
    } catch {
      throw Problem(error)
    }
    return received
  }

  /// Messages that another peer's test has just sent are left for that peer. The envelope's time is the sender's
  /// word, any number: it is compared, never reckoned with.
  private func isDue(_ envelope: Envelope, from relay: RelayName, at now: Timestamp) -> Bool {
    let isOfATest =
      now.adding(.zero - Self.testTime) <= envelope.timestamp && envelope.timestamp <= now.adding(Self.testTime)
    return envelope.relay == relay || !isOfATest
  }

  private func register(_ number: AccountNumber) async throws(StoreError) {
    let now = clock.now()
    let device = Device(
      id: .master, password: Passwords.hash(Secret(Self.randomText(bytes: 32))),
      signalingKey: Secret(Self.randomText(bytes: 52)), registrationID: Int32.random(in: 1...16_383),
      fetchesMessages: true, lastSeen: now.startOfDay, created: now)
    let registration = Registration(
      number: number, token: ContactTokens.token(of: number), device: device, supportsSMS: false, voice: false,
      respectsClaims: false)
    // No code was sent: there is no phone. Without a lock it cannot be refused.
    _ = try await store.register(registration, proof: .trusted, now: now)
    await accounts.changed(number)
  }

  private static func keys(_ identityKey: String) -> PreKeyUpload {
    PreKeyUpload(
      identityKey: identityKey,
      oneTimeKeys: (1...Self.oneTimeKeysMax).map { PreKey(keyID: Int64($0), publicKey: publicKey()) },
      lastResort: PreKey(keyID: 0xFF_FFFF, publicKey: publicKey()))
  }

  /// As clients write one: 0x05 and the key, in base64 without padding.
  private static func publicKey() -> String {
    Base64.encode([0x05] + Array(Curve25519.KeyAgreement.PrivateKey().publicKey.rawRepresentation), padded: false)
  }

  private static func randomText(bytes count: Int) -> String {
    var random = SystemRandomNumberGenerator()
    return Base64.encode((0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }, padded: true)
  }

  private static let oneTimeKeysMin = 10
  private static let oneTimeKeysMax = 50
  private static let pageMax = 100
  /// As many as a mailbox may hold by default, and more.
  private static let envelopesMax = 5000
  /// A test is over by then.
  private static let testTime = Duration.seconds(60)
}

package import RelayCore

/// The parts that the methods need.
package struct NotificationEdgeParts: Sendable {
  package let store: any NotificationStore
  package let limiter: any RateLimiter
  /// A notification is stored at its time.
  package let clock: WallClock
  /// The clock of those who push: a push is due by it.
  package let pushClock: WallClock
  /// Whether a user's password is the one that was stored, asked from an address. Throws where too many wait to know.
  package typealias PasswordCheck =
    @Sendable (NotificationUser, Secret, PasswordHash, LimitKey?) async throws(Problem) -> Bool
  package let isPassword: PasswordCheck
  /// A number for a new recipient, which may be taken.
  package var newNumber: @Sendable () -> RecipientNumber?
  /// Recipients of one account.
  package var recipientsMax = NotificationLimits.recipientsMax
  /// Called when there are pushes to make, and when there is an event to send.
  package var onPush: @Sendable () -> Void = {}
  package var onEvent: @Sendable () -> Void = {}

  package init(
    store: any NotificationStore, limiter: any RateLimiter, clock: WallClock, pushClock: WallClock,
    isPassword: @escaping PasswordCheck,
    newNumber: @escaping @Sendable () -> RecipientNumber? = { NotificationEdgeParts.randomNumber() }
  ) {
    self.store = store
    self.limiter = limiter
    self.clock = clock
    self.pushClock = pushClock
    self.isPassword = isPassword
    self.newNumber = newNumber
  }

  /// Numbers cannot be guessed by counting.
  package static func randomNumber() -> RecipientNumber? {
    RecipientNumber(Int64.random(in: 100_000_000_000...999_999_999_999))
  }
}

/// Why a method was not served.
enum MethodFailure: Error {
  case refused(NotificationCode)
  case failed(StoreError)
  /// The account has as many recipients as it may.
  case accountFull
  /// Too many passwords are being checked.
  case busy
}

/// The methods of the interface: each checks its parameters in the order of its codes, and a request that fails has no
/// effect.
struct NotificationMethods: Sendable {
  /// Lines of one answer.
  static let pageMax = 1000
  static let recipientsMax = 10_000
  private static let numberTries = 16

  let parts: NotificationEdgeParts

  // MARK: Apps

  func subscribe(_ parameters: FormParameters) async throws(MethodFailure) -> NotificationAnswer {
    let user = try await app(parameters)
    let known: RecipientNumber? =
      if case .number = try refusing(parameters.recipientID) { try await recipient(parameters, of: user).number } else {
        nil
      }
    let provider = try refusing(parameters.provider)
    let key = try refusing { () throws(NotificationCode) in try parameters.key(of: provider) }
    let message = try refusing(parameters.message)
    let number =
      if let known { try await subscribe(known, key, of: user, message) } else {
        try await add(key, of: user, message)
      }
    parts.onEvent()
    return .recipient(number, isReactivated: false)
  }

  func updateKey(_ parameters: FormParameters) async throws(MethodFailure) -> NotificationAnswer {
    let user = try await app(parameters)
    let number = try await recipient(parameters, of: user).number
    let provider = try refusing(parameters.provider)
    let key = try refusing { () throws(NotificationCode) in try parameters.key(of: provider) }
    let replacement = try await storing { () async throws(StoreError) in
      try await parts.store.replaceKey(of: number, by: key, of: user, now: parts.clock.now())
    }
    guard replacement != .unknownRecipient else { throw .refused(.unknownRecipient) }
    return .recipient(number, isReactivated: replacement == .reactivated)
  }

  /// - Parameter fromAll: the recipient becomes inactive.
  func unsubscribe(_ parameters: FormParameters, fromAll: Bool) async throws(MethodFailure) -> NotificationAnswer {
    let user = try await app(parameters)
    let number = try await recipient(parameters, of: user).number
    _ = try refusing(parameters.provider)
    let message = try refusing(parameters.message)
    try await storing { () async throws(StoreError) in
      try await parts.store.unsubscribe(
        number, of: user, fromAll: fromAll, subject: message, now: parts.clock.now())
    }
    parts.onEvent()
    return .recipient(number, isReactivated: false)
  }

  func get(_ parameters: FormParameters) async throws(MethodFailure) -> NotificationAnswer {
    let user = try await app(parameters)
    let after = try refusing { () throws(NotificationCode) in try parameters.messageNumber("lastmsgno") }
    let number = try await recipient(parameters, of: user).number
    let since = try refusing(parameters.sentAfter)
    let notifications = try await storing { () async throws(StoreError) in
      try await parts.store.notifications(for: number, after: after, since: since, limit: Self.pageMax)
    }
    return .notifications(notifications, isWashed: !parameters.isSet("clean", to: "false"))
  }

  // MARK: Senders

  /// - Parameter address: whoever asks.
  func send(_ parameters: FormParameters, from address: LimitKey?) async throws(MethodFailure) -> NotificationAnswer {
    let account = try await sender(parameters, from: address)
    let notification = try refusing(parameters.notification)
    let addresses = try refusing(parameters.addresses)
    let outcome = try await storing { () async throws(StoreError) in
      try await parts.store.send(
        notification, to: addresses, of: account, recipientsMax: Self.recipientsMax, now: parts.clock.now(),
        due: parts.pushClock.now())
    }
    switch outcome {
    case .sent(let number, _):
      parts.onPush()
      return .sent(number)
    case .denied: throw .refused(.authorizationMissing)
    case .noRecipients: throw .refused(.noRecipients)
    case .tooManyRecipients, .quotaExceeded: throw .refused(.tooManyMessages)
    case .notEnoughCredits: throw .refused(.notEnoughCredits)
    }
  }

  /// - Parameter address: whoever asks.
  func received(_ parameters: FormParameters, from address: LimitKey?) async throws(MethodFailure) -> NotificationAnswer
  {
    let account = try await sender(parameters, from: address)
    let after = try refusing { () throws(NotificationCode) in try parameters.messageNumber("lastMsgId") }
    return .events(
      try await events(of: account, after: after), of: account, isWashed: parameters.isSet("clean", to: "true"))
  }

  /// - Throws: `.tooManyMessages` when the account fetches too often.
  func events(of account: NotificationUser, after: Int64) async throws(MethodFailure) -> [NotificationEvent] {
    guard await parts.limiter.take(1, from: .notificationRetrievals, key: LimitKey(account)) == .allowed else {
      throw .refused(.tooManyMessages)
    }
    return try await storing { () async throws(StoreError) in
      try await parts.store.events(of: account, after: after, limit: Self.pageMax)
    }
  }

  // MARK: Who asks

  private func app(_ parameters: FormParameters) async throws(MethodFailure) -> NotificationUser {
    let name = NotificationUser(try refusing(parameters.user))
    guard let name, let account = try await account(name), account.isPermitted else {
      throw .refused(.authorizationMissing)
    }
    return name
  }

  private func sender(
    _ parameters: FormParameters, from address: LimitKey?
  ) async throws(MethodFailure) -> NotificationUser {
    let user = try refusing(parameters.user)
    return try await sender(user, password: try refusing(parameters.password), from: address)
  }

  /// Whether there is such a user, and has the right, its apps can find out by themselves: no time is spent on hiding
  /// it.
  /// - Parameters:
  ///   - password: nil for what cannot be one.
  ///   - address: whoever asks.
  func sender(
    _ user: String, password: String?, from address: LimitKey?
  ) async throws(MethodFailure) -> NotificationUser {
    guard let name = NotificationUser(user), let password, let account = try await account(name), account.isPermitted,
      try await isPassword(Secret(password), of: account, from: address)
    else { throw .refused(.authorizationMissing) }
    return name
  }

  private func isPassword(
    _ password: Secret, of account: NotificationAccount, from address: LimitKey?
  ) async throws(MethodFailure) -> Bool {
    do throws(Problem) {
      return try await parts.isPassword(account.name, password, account.password, address)
    } catch {
      if error.kind == .unavailable { throw .busy }
      throw .failed(.corrupted(reason: error.reason ?? "a password could not be checked"))
    }
  }

  private func account(_ name: NotificationUser) async throws(MethodFailure) -> NotificationAccount? {
    try await storing { () async throws(StoreError) in
      try await parts.store.notificationAccount(name, now: parts.clock.now())
    }
  }

  private func recipient(
    _ parameters: FormParameters, of user: NotificationUser
  ) async throws(MethodFailure) -> NotificationRecipient {
    guard case .number(let number) = try refusing(parameters.recipientID) else { throw .refused(.invalidRecipient) }
    guard let number else { throw .refused(.unknownRecipient) }
    let recipient = try await storing { () async throws(StoreError) in
      try await parts.store.recipient(number, of: user)
    }
    guard let recipient else { throw .refused(.unknownRecipient) }
    return recipient
  }

  // MARK: Recipients

  private func subscribe(
    _ number: RecipientNumber, _ key: RecipientKey, of user: NotificationUser, _ message: NotificationText
  ) async throws(MethodFailure) -> RecipientNumber {
    let isKnown = try await storing { () async throws(StoreError) in
      try await parts.store.subscribe(number, key, of: user, subject: message, now: parts.clock.now())
    }
    guard isKnown else { throw .refused(.unknownRecipient) }
    return number
  }

  private func add(
    _ key: RecipientKey, of user: NotificationUser, _ message: NotificationText
  ) async throws(MethodFailure) -> RecipientNumber {
    for _ in 0..<Self.numberTries {
      guard let number = parts.newNumber() else { continue }
      let addition = try await storing { () async throws(StoreError) in
        try await parts.store.addRecipient(
          number, key, of: user, subject: message, recipientsMax: parts.recipientsMax, now: parts.clock.now())
      }
      switch addition {
      case .added: return number
      case .numberTaken: continue
      case .unknownAccount: throw .refused(.authorizationMissing)
      case .accountFull: throw .accountFull
      }
    }
    throw .refused(.unknownError)
  }

  // MARK: Errors

  func refusing<Value>(_ check: () throws(NotificationCode) -> Value) throws(MethodFailure) -> Value {
    do throws(NotificationCode) { return try check() } catch { throw .refused(error) }
  }

  private func storing<Value>(
    _ call: () async throws(StoreError) -> Value
  ) async throws(MethodFailure) -> Value {
    do throws(StoreError) { return try await call() } catch { throw .failed(error) }
  }
}

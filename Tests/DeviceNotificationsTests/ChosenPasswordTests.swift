import Relay
import RelayCore
import TestSupport
import TestTags
import Testing

/// Passwords that people chose (docs/decisions/2026-11-21-password-hash.md).
@Suite(.tags(.unit)) struct ChosenPasswordTests {
  private let user: NotificationUser
  private let passwords = ChosenPasswords(capacity: 4)

  init() throws { user = try #require(NotificationUser("acme")) }

  private func verify(
    _ password: String, _ stored: PasswordHash, _ user: NotificationUser? = nil
  ) async throws -> Bool {
    try await passwords.verify(Secret(password), of: user ?? self.user, from: nil, against: stored)
  }

  @Test func `a stored password says what it costs, and differs each time`() async throws {
    let stored = try await passwords.hash(Secret("chosen"), of: user)
    let again = try await passwords.hash(Secret("chosen"), of: user)
    #expect(stored.hash.count == 36 && stored.salt.count == 16 && stored != again)
    for hash in [stored, again] { #expect(try await verify("chosen", hash)) }
    #expect(try await !verify("chosem", stored))
    // Another cost gives another key: what is stored is believed.
    var cheaper = stored.hash
    cheaper[1] -= 1
    #expect(try await !verify("chosen", PasswordHash(salt: stored.salt, hash: cheaper)))
  }

  @Test func `a random password keeps the fast hash`() async throws {
    let stored = Passwords.hash(Secret("random"))
    #expect(stored.hash.count == 32)
    #expect(try await verify("random", stored))
    #expect(try await !verify("randon", stored))
  }

  @Test func `a right password is remembered until another one is stored`() async throws {
    let stored = try await passwords.hash(Secret("chosen"), of: user)
    #expect(try await verify("chosen", stored))
    // Twenty times the remembered one take less than one derivation: in one of the rounds nothing comes between.
    try await eventually("the remembered one takes no derivation") { () async throws -> Bool in
      let begun = ContinuousClock.now
      #expect(try await !verify("wrong", stored))
      let first = ContinuousClock.now - begun
      for _ in 0..<20 { #expect(try await verify("chosen", stored)) }
      return ContinuousClock.now - begun - first < first
    }
    let next = try await passwords.hash(Secret("other"), of: user)
    #expect(try await !verify("chosen", next))
    // For another user the same password is not remembered, but the same hash is.
    let beta = try #require(NotificationUser("beta"))
    #expect(try await verify("chosen", stored, beta))
  }

  @Test func `many logins at once with one password wait for one derivation`() async throws {
    let stored = try await passwords.hash(Secret("chosen"), of: user)
    let results = try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<100 { group.addTask { try await verify("chosen", stored) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(results.count == 100 && results.allSatisfy { $0 })
  }

  @Test func `guesses of one user leave room for others`() async throws {
    let stored = try await passwords.hash(Secret("chosen"), of: user)
    let beta = try #require(NotificationUser("beta"))
    let other = try await passwords.hash(Secret("theirs"), of: beta)
    let refused = try await withThrowingTaskGroup(of: Bool.self) { group in
      for index in 0..<50 {
        group.addTask {
          do throws(Problem) {
            _ = try await passwords.verify(Secret("guess \(index)"), of: user, from: nil, against: stored)
            return false
          } catch {
            return error.kind == .unavailable
          }
        }
      }
      #expect(try await verify("theirs", other, beta))
      return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(refused >= 1)
  }

  @Test func `a stored password of an unknown form is a fault`() async throws {
    let stored = try await passwords.hash(Secret("chosen"), of: user)
    for (place, value) in [(0, 9), (1, 60), (2, 0), (3, 200)] as [(Int, UInt8)] {
      var bytes = stored.hash
      bytes[place] = value
      await #expect(throws: Problem(.internalError)) {
        try await verify("chosen", PasswordHash(salt: stored.salt, hash: bytes))
      }
    }
  }
}

import RelayCore
import RelayHTTP
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// How many different contacts an account may ask for, whichever way it does (docs/directory.md, "The budget").
@Suite(.tags(.unit)) struct ContactPurseTests {
  private static func account(_ index: Int) throws -> AccountNumber {
    try #require(AccountNumber(digits: 15_550_000_000 + Int64(index)))
  }

  @Test func `an account over its budget may ask for news once a minute, until the budget allows more`() throws {
    let start = ContinuousClock.now
    let pauses = BudgetPauses(now: start)
    let (one, other) = (try Self.account(1), try Self.account(2))
    #expect(Self.open(100, one, pauses, at: start) == 100)
    pauses.refused(one, at: start)
    #expect(pauses.admit(one, at: start) == .knownOnly(rest: .seconds(60)))
    #expect(pauses.admit(one, at: start + .seconds(59)) == .knownOnly(rest: .seconds(1)))
    #expect(pauses.admit(other, at: start) == .open)
    // One of many at a time gets through, and it is the only one until its answer is there.
    let later = start + .seconds(60)
    #expect(Self.open(100, one, pauses, at: later) == 1)
    pauses.allowed(one)
    #expect(Self.open(100, one, pauses, at: later) == 100)
  }

  @Test func `that something is new is told a few times a minute, and what is known without end`() throws {
    let start = ContinuousClock.now
    let pauses = BudgetPauses(now: start)
    let one = try Self.account(1)
    pauses.refused(one, at: start)
    for _ in 0..<1000 {
      #expect(pauses.admit(one, at: start) == .knownOnly(rest: .seconds(60)))
      pauses.wereKnown(one, at: start)
    }
    #expect(pauses.isPausing(one))
    for _ in 0..<BudgetPauses.triesMax {
      #expect(pauses.admit(one, at: start) == .knownOnly(rest: .seconds(60)))
    }
    #expect(pauses.admit(one, at: start) == .resting(.seconds(60)))
    // The next minute begins with a question for anything, and has as many tries.
    let later = start + .seconds(60)
    #expect(pauses.admit(one, at: later) == .open)
    pauses.refused(one, at: later)
    #expect(pauses.admit(one, at: later) == .knownOnly(rest: .seconds(60)))
  }

  private static func open(
    _ count: Int, _ account: AccountNumber, _ pauses: BudgetPauses, at now: ContinuousClock.Instant
  ) -> Int {
    (0..<count).count { _ in pauses.admit(account, at: now) == .open }
  }

  @Test func `pauses are bounded in number, and last for half a day at least`() throws {
    let start = ContinuousClock.now
    let pauses = BudgetPauses(capacity: 20, now: start)
    for index in 0..<1000 { pauses.refused(try Self.account(index), at: start) }
    let paused = try (0..<1000).count { pauses.isPausing(try Self.account($0)) }
    #expect((10...20).contains(paused))
    let (last, later) = (try Self.account(999), start + .seconds(11 * 3600))
    #expect(Self.open(100, last, pauses, at: later) == 1)
  }
}

/// Requests for keys and messages, charged to that budget (docs/directory.md, "Keys and messages").
@Suite(.tags(.unit)) struct CorrespondenceGateTests {
  /// A budget of exactly `room` contacts, which notes how often it is asked.
  private final class Budget: ContactBudget {
    private struct State {
      var spent: Set<ContactToken> = []
      var calls = 0
    }
    private let state = Mutex(State())
    private let room: Int
    init(room: Int) { self.room = room }

    var calls: Int { state.withLock { $0.calls } }
    var spent: Int { state.withLock { $0.spent.count } }
    func spend(
      _ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance
    ) async -> ContactSpending {
      state.withLock { state in
        state.calls += 1
        let new = Set(tokens).subtracting(state.spent)
        let most = allowance.first == 0 ? 0 : room
        guard new.isEmpty || state.spent.count + new.count <= most else { return .refused(retryAfter: .seconds(9)) }
        state.spent.formUnion(new)
        return .allowed(new: new.count)
      }
    }
  }

  private let caller: AccountNumber
  private let numbers: [AccountNumber]

  init() throws {
    caller = try #require(AccountNumber(digits: 15_551_000_000))
    numbers = try (0..<100).map { try #require(AccountNumber(digits: 15_552_000_000 + $0)) }
  }

  private static func gate(_ budget: Budget) -> CorrespondenceGate {
    CorrespondenceGate(
      purse: ContactPurse(budget: budget, allowance: LookUpAllowance(first: 1, firstDays: 1, perDay: 1)))
  }

  /// The answer to `caller`, who asks for `number`.
  private func ask(_ gate: CorrespondenceGate, _ number: AccountNumber, _ problem: Problem.Kind? = nil) async -> String
  {
    do throws(Problem) {
      return try await gate.reach(number, by: caller) { () async throws(Problem) in
        if let problem { throw Problem(problem) }
        return "200"
      }
    } catch {
      return error.kind.rawValue
    }
  }

  @Test func `an ordinary correspondence never asks the budget`() async {
    let budget = Budget(room: 0)
    let gate = Self.gate(budget)
    for _ in 0..<3 {
      for number in numbers[..<(Correspondents.debtMax - 1)] + [caller] { #expect(await ask(gate, number) == "200") }
    }
    #expect(budget.calls == 0)
  }

  @Test func `a missing key is charged once, before its answer`() async {
    let budget = Budget(room: 2)
    let gate = Self.gate(budget)
    for _ in 0..<3 { #expect(await ask(gate, numbers[0], .notFound) == "not-found") }
    #expect(await ask(gate, numbers[1], .notFound) == "not-found")
    #expect(await ask(gate, numbers[2], .notFound) == "contact-budget-exceeded")
    #expect(await ask(gate, numbers[3], .notFound) == "contact-budget-exceeded")
  }

  @Test func `past the budget, nothing is even asked`() async {
    let gate = Self.gate(Budget(room: 0))
    #expect(await ask(gate, numbers[0]) == "200")
    #expect(await ask(gate, numbers[1], .notFound) == "contact-budget-exceeded")
    let asked = Mutex(0)
    for number in numbers[2...] {
      do throws(Problem) {
        try await gate.reach(number, by: caller) { () async throws(Problem) in asked.withLock { $0 += 1 } }
        Issue.record("a number was reached")
      } catch {
        #expect(error.kind == .contactBudgetExceeded && error.retryAfter != nil)
      }
    }
    #expect(asked.withLock { $0 } == 0)
    // It reaches the numbers that it knows, and those that have written to it.
    #expect(await ask(gate, numbers[0]) == "200")
    do throws(Problem) {
      try await gate.reply(to: numbers[5], by: caller) { () async throws(Problem) in }
    } catch {
      Issue.record("a reply was refused: \(error.kind)")
    }
    #expect(await ask(gate, numbers[5]) == "200")
  }

  @Test func `many that answer are charged together`() async throws {
    let budget = Budget(room: 2 * Correspondents.debtMax)
    let gate = Self.gate(budget)
    for number in numbers { #expect(await ask(gate, number, .mismatchedDevices) == "mismatched-devices") }
    // Two times as many as are charged at once; if the second came while the first was under way, by itself.
    try await eventually("all but what is owed is charged") { budget.spent >= Correspondents.debtMax }
    #expect(budget.calls <= 2 + Correspondents.debtMax)
  }

  @Test func `an account that cannot pay for many is refused, whatever comes`() async throws {
    let budget = Budget(room: Correspondents.debtMax - 1)
    let gate = Self.gate(budget)
    for number in numbers[..<Correspondents.debtMax] { #expect(await ask(gate, number) == "200") }
    try await eventually("the budget was asked") { budget.calls == 1 }
    var next = Correspondents.debtMax
    try await eventually("the account is known to be over it") {
      next += 1
      return await ask(gate, numbers[next]) == "contact-budget-exceeded"
    }
    for number in numbers[..<Correspondents.debtMax] { #expect(await ask(gate, number) == "200") }
    #expect(await ask(gate, numbers[next]) == "contact-budget-exceeded")
  }

  @Test func `a failure for another reason costs nothing`() async {
    let budget = Budget(room: 0)
    let gate = Self.gate(budget)
    for _ in 0..<3 { #expect(await ask(gate, numbers[0], .peerUnavailable) == "peer-unavailable") }
    #expect(budget.calls == 0)
  }
}

/// Which numbers an account is in contact with, as far as a process remembers.
@Suite(.tags(.unit)) struct CorrespondentsTests {
  private static func number(_ index: Int) throws -> AccountNumber {
    try #require(AccountNumber(digits: 15_553_000_000 + Int64(index)))
  }

  @Test func `new numbers are paid many at once, and known for half a day at least`() throws {
    let start = ContinuousClock.now
    let known = Correspondents(now: start)
    let (one, other) = (try Self.number(1), try Self.number(2))
    let numbers = try (0..<110).map { try Self.number(100 + $0) }
    let most = Correspondents.debtMax
    func admit(_ index: Int, _ account: AccountNumber, mayOwe: Bool = true, hours: Int = 0) -> Correspondents.Admission
    {
      known.admit(numbers[index], of: account, mayOwe: mayOwe, at: start + .seconds(3600 * hours))
    }
    for index in 0..<(most - 1) { #expect(admit(index, one) == .free) }
    #expect(admit(most - 1, one) == .settling(Array(numbers[..<most])))
    for index in 0..<most { #expect(admit(index, one, mayOwe: false, hours: 1) == .free, "the same again") }
    // While those are being paid as many may come, and no more.
    for index in most..<(2 * most) { #expect(admit(index, one) == .free) }
    #expect(admit(2 * most, one) == .charged)
    known.settled(one)
    #expect(admit(2 * most, one) == .settling(Array(numbers[most..<2 * most])))
    // An account that may not owe pays for each, and others have debts of their own.
    #expect(admit(0, other, mayOwe: false) == .charged)
    #expect(admit(0, other) == .free)
    // Known for another half of a day.
    for index in 0..<most { #expect(admit(index, one, mayOwe: false, hours: 12) == .free) }
    #expect(admit(most, one, mayOwe: false, hours: 36) == .charged)
  }

  @Test func `a contact that was paid by itself is not owed`() throws {
    let known = Correspondents()
    let account = try Self.number(1)
    for index in 0..<200 {
      let number = try Self.number(100 + index)
      #expect(known.admit(number, of: account, mayOwe: true) == .free)
      known.remove(number, of: account)
    }
  }

  @Test func `the memory is bounded`() throws {
    let start = ContinuousClock.now
    let known = Correspondents(capacity: 20, now: start)
    let account = try Self.number(1)
    for index in 0..<1000 { known.add(try Self.number(100 + index), of: account, at: start) }
    let held = try (0..<1000).count {
      known.admit(try Self.number(100 + $0), of: account, mayOwe: false, at: start) == .free
    }
    #expect((1...20).contains(held), "\(held)")
    known.add(account, of: account, at: start)
    known.remove(account, of: account)
    #expect(known.admit(account, of: account, mayOwe: false, at: start) == .charged)
  }
}

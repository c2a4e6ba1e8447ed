package import RelayCore
import RelayWork
import Synchronization

// An account's contacts are one value of Redis's, read and replaced whole. For most accounts it is a kilobyte, since
// most have some hundred contacts. Nothing is written when there is nothing new.

extension RedisCoordination {
  package func spend(
    _ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance
  ) async -> ContactSpending {
    guard !tokens.isEmpty else { return .allowed(new: 0) }
    let key = "\(prefix)contacts:\(Self.hashed(LimitKey(account).text))"
    for attempt in 0..<Self.attemptsMax {
      guard await Self.pause(before: attempt) else { break }
      let asked = await commands.run(
        AskScript.script, keys: [key], AskScript.arguments(now: time?.now(), memory: allowance.memory))
      guard let (now, former) = health.judged(asked, AskScript.found) else {
        return spendLocally(tokens, of: account, within: allowance)
      }
      var random = SystemRandomNumberGenerator()
      var sketch = ContactSketch(bytes: former) ?? ContactSketch(begun: now, random: &random)
      let spending = sketch.spend(tokens, within: allowance, at: now)
      // Refused, or nothing new: nothing has changed.
      guard case .allowed(new: 1...) = spending else { return spending }
      let stored = await commands.run(
        SpendScript.script, keys: [key],
        bytes: SpendScript.arguments(replacing: former, with: sketch, memory: allowance.memory))
      guard let isStored = health.judged(stored, SpendScript.isStored) else {
        return spendLocally(tokens, of: account, within: allowance)
      }
      if isStored { return spending }
    }
    // So many requests of one account at once that each finds another one's sketch.
    return .refused(retryAfter: .seconds(1))
  }

  private func spendLocally(
    _ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance
  ) -> ContactSpending {
    health.decidedLocally()
    let now = clock.now()
    return sketches.withLock { $0.spend(tokens, of: account, within: allowance, at: now) }
  }

  /// Longer from attempt to attempt, and spread.
  /// - Returns: false when the caller has given up.
  private static func pause(before attempt: Int) async -> Bool {
    guard attempt > 1 else { return true }
    return await Pause.for(.milliseconds(Int.random(in: 1...4 * attempt)))
  }

  /// Each time somebody else was stored.
  private static let attemptsMax = 12
}

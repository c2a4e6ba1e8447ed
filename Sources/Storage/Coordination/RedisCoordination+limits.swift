import Crypto
import Foundation
package import RelayCore
import Synchronization

extension RedisCoordination {
  package func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision {
    await take([LimitCharge(amount, from: limiter, key: key)])
  }

  package func take(_ charges: [LimitCharge]) async -> LimitDecision {
    guard !charges.isEmpty else { return .allowed }
    return await take(each: [charges]).first ?? .allowed
  }

  package func take(each takes: [[LimitCharge]]) async -> [LimitDecision] {
    guard health.servesLimits else { return await ask(takes) }
    var decisions = takes.map { leases.allows($0) ? LimitDecision.allowed : nil }
    let asked = decisions.indices.filter { decisions[$0] == nil }
    if asked.count < takes.count { leases.pay { [weak self] in await self?.ask($0.map { [$0] }) ?? [] } }
    guard !asked.isEmpty else { return takes.map { _ in .allowed } }
    let debts = asked.flatMap { leases.takeDebts(of: takes[$0]) }
    let answers = await ask(debts.map { [$0] } + asked.map { takes[$0] })
    leases.settle(debts, by: answers.prefix(debts.count))
    for (index, answer) in zip(asked, answers.dropFirst(debts.count)) {
      if answer == .allowed { leases.charged(takes[index]) }
      decisions[index] = answer
    }
    return decisions.map { $0 ?? .allowed }
  }

  /// Never by a lease: what is charged in a chain is mostly bounded exactly.
  package func take(_ charges: [LimitCharge], thenEach further: [LimitCharge]) async -> ChainedDecision {
    guard !further.isEmpty, !charges.isEmpty else {
      return ChainedDecision(await take(charges), further: await take(each: further.map { [$0] }))
    }
    let debts = health.servesLimits ? leases.takeDebts(of: charges + further) : []
    let decisions = await gathered.decide(
      debts.map { asked([$0]) } + [asked(charges + further, following: further.count)])
    leases.settle(debts, by: zip(debts, decisions).map { $1 ?? decide([$0]) })
    var own = decisions.dropFirst(debts.count)
    let first = (own.popFirst() ?? nil) ?? decide(charges)
    guard first == .allowed else { return ChainedDecision(first, refusing: further.count) }
    leases.charged(charges)
    return ChainedDecision(first, further: zip(further, own).map { $1 ?? decide([$0]) })
  }

  /// Has Redis decide.
  func ask(_ takes: [[LimitCharge]]) async -> [LimitDecision] {
    guard !takes.isEmpty else { return [] }
    let decisions = await gathered.decide(takes.map { asked($0) })
    return zip(takes, decisions).map { charges, decision in decision ?? decide(charges) }
  }

  private func asked(_ charges: [LimitCharge], following: Int = 0) -> GatheredTakes.Take {
    GatheredTakes.Take(
      keys: charges.map { bucketKey($0.limiter, $0.key) }, charges: charges.map { ($0.amount, shape(of: $0.limiter)) },
      following: following)
  }

  /// By this process's own buckets.
  private func decide(_ charges: [LimitCharge]) -> LimitDecision {
    let shapes = charges.map { shape(of: $0.limiter) }
    health.decidedLocally()
    // A charge that the shared bucket could never allow stays refused. One that only the smaller bucket could not
    // allow empties it.
    guard zip(charges, shapes).allSatisfy({ $0.amount <= $1.size }) else { return .refused(retryAfter: nil) }
    let local = zip(charges, shapes).map { charge, shape in
      LimitCharge(min(charge.amount, shape.conservative.size), from: charge.limiter, key: charge.key)
    }
    let now = clock.now()
    return fallback.withLock { $0.take(local, at: now) }
  }

  private typealias Judge = @Sendable ([GatheredTakes.Take]) async -> [LimitDecision]?

  /// Has Redis judge charges that were gathered: those of one slot in one script.
  static func judging(
    by commands: RedisCommands, health: RedisHealth, time: WallClock?
  ) -> @Sendable ([GatheredTakes.Take]) async -> [LimitDecision?]? {
    let judge: Judge = { takes in
      let arguments = TakeScript.arguments(takes, now: time?.now())
      let reply = await commands.run(TakeScript.script, keys: takes.flatMap(\.keys), arguments)
      let count = takes.reduce(0) { $0 + $1.decisionCount }
      return health.judged(reply) { reply in TakeScript.decisions(reply).flatMap { $0.count == count ? $0 : nil } }
    }
    guard case .cluster = commands else { return judge }
    return { takes in
      let answers = await commands.apart(Array(takes.enumerated())[...], by: { $0.element.keys[0] }) { group in
        let (whole, mixed) = (
          group.filter { $0.element.isOfOneSlot(commands) }, group.filter { !$0.element.isOfOneSlot(commands) }
        )
        var rest = (whole.isEmpty ? [] : await judge(whole.map(\.element)) ?? [])[...]
        var answers: [(place: Int, decisions: [LimitDecision?])] = []
        for (place, take) in whole {
          answers.append((place, rest.prefix(take.decisionCount).map { $0 }))
          rest = rest.dropFirst(take.decisionCount)
        }
        for (place, take) in mixed { answers.append((place, await Self.judge(inParts: take, commands, judge))) }
        return answers
      }
      let found = Dictionary(answers.joined().map { ($0.place, $0.decisions) }) { first, _ in first }
      return takes.enumerated().flatMap { place, take -> [LimitDecision?] in
        guard let decisions = found[place], decisions.count == take.decisionCount else {
          return Array(repeating: nil, count: take.decisionCount)
        }
        return decisions
      }
    }
  }

  /// Charges one slot's buckets after the other's. If one of those that stand or fall together refuses, or does not
  /// answer, those before it get back what they were charged: for a moment they hold less than they should, and never
  /// allow more. Then the followers are judged, each by itself.
  private static func judge(
    inParts take: GatheredTakes.Take, _ commands: RedisCommands, _ judge: Judge
  ) async -> [LimitDecision?] {
    var charged: [GatheredTakes.Take] = []
    for part in take.together.parts(by: commands.slot) {
      let decision = await judge([part])?.first
      guard decision == .allowed else {
        for former in charged { _ = await judge([former.reversed]) }
        return [decision] + Array(repeating: decision, count: take.following)
      }
      charged.append(part)
    }
    var decisions: [LimitDecision?] = [.allowed]
    for follower in take.followers { decisions.append(await judge([follower])?.first) }
    return decisions
  }

  package func space(in limiter: LimiterName, key: LimitKey) async -> Double {
    let arguments = SpaceScript.arguments(shape(of: limiter), now: time?.now())
    let shared = await answer(SpaceScript.script, [bucketKey(limiter, key)], arguments, read: SpaceScript.space)
    if let shared { return max(0, shared - leases.debt(of: limiter, key)) }
    let now = clock.now()
    return fallback.withLock { $0.space(in: limiter, key: key, at: now) }
  }

  /// - Returns: nil when Redis gave none: then the process decides by itself.
  private func answer<Answer>(
    _ script: RedisScript, _ keys: [String], _ arguments: [String], read: (RedisReply) -> Answer?
  ) async -> Answer? {
    health.judged(await commands.run(script, keys: keys, arguments), read)
  }

  package func shape(of limiter: LimiterName) -> Bucket { shapes.withLock { $0[limiter] } ?? limiter.defaultBucket }

  package func setLimits(_ buckets: [LimiterName: Bucket]) {
    let all = Self.complete(buckets)
    shapes.withLock { $0 = all }
    fallback.withLock { $0.setShapes(all.mapValues(\.conservative)) }
    leases.setShapes(all)
  }

  /// With those that `buckets` leaves at their defaults.
  static func complete(_ buckets: [LimiterName: Bucket]) -> [LimiterName: Bucket] {
    Dictionary(uniqueKeysWithValues: LimiterName.allCases.map { ($0, buckets[$0] ?? $0.defaultBucket) })
  }

  private func bucketKey(_ limiter: LimiterName, _ key: LimitKey) -> String {
    "\(prefix)bucket:\(limiter.rawValue):\(RedisSlot.tag(of: key.subject.utf8))\(Self.hashed(key.text))"
  }

  /// Numbers and addresses are hashed where they name what Redis keeps: a copy of its memory lists nobody in clear.
  static func hashed(_ text: String) -> String {
    Base64.encodeURLSafe(Array(SHA256.hash(data: Data(text.utf8)).prefix(16)))
  }
}

extension Bucket {
  /// The bucket that a process uses by itself while the shared one is away.
  var conservative: Bucket { Bucket(size: min(size, max(1, size / 4)), perMinute: perMinute / 4) }
}

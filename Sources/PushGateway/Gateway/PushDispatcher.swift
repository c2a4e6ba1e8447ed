package import Logging
import Push
package import RelayCore
import RelayWork

/// Carries a notification to its devices: side by side, each with an outcome of its own (reference 9, 12, 13).
package struct PushDispatcher: Sendable {
  /// Tokens that legacy FCM takes in one request.
  private static let tokensMax = 1000

  private let selection: PushAppSelection
  private let apps: [GatewayApp]
  private let book: OutcomeCache
  private let board: (any PushBoard)?
  /// Names this process to the others.
  private let claimant = UInt64.random(in: .min ... .max)
  private let logger: Logger
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameters:
  ///   - rememberedMax: outcomes that this process keeps for repeated requests.
  ///   - board: what all processes see of pushes; nil where there is one.
  package init(
    apps: [GatewayApp], rememberedMax: Int, board: (any PushBoard)? = nil, logger: Logger,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.apps = apps
    self.board = board
    self.now = now
    self.logger = logger
    selection = PushAppSelection(names: apps.map(\.app.name))
    book = OutcomeCache(max: rememberedMax, now: now)
  }

  /// Every device is tried, whatever became of the others. Ends soon after `deadline` at the latest.
  package func dispatch(_ notification: PushNotification, deadline: ContinuousClock.Instant) async -> NotifyAnswer {
    var outcomes = [DeviceOutcome](repeating: .rejected(.unknownApp), count: notification.devices.count)
    let works = plan(notification, &outcomes)
    if works.count == 1 {
      for (index, outcome) in await carry(works[0], of: notification, deadline) { outcomes[index] = outcome }
    } else {
      await withTaskGroup(of: [(Int, DeviceOutcome)].self) { group in
        for (_, works) in Dictionary(grouping: works, by: { ObjectIdentifier($0.app) }) {
          group.addTask { await carry(works, of: notification, deadline) }
        }
        for await ended in group {
          for (index, outcome) in ended { outcomes[index] = outcome }
        }
      }
    }
    return NotifyAnswer(notification.devices, outcomes)
  }

  // MARK: What goes out together

  /// Devices that go out in one request to the provider.
  private struct Work: Sendable {
    let app: GatewayApp
    /// Their places in the notification, ascending, at least one.
    var members: [Int]
    /// One for each member, where the push can be told from others.
    var identities: [PushIdentity]?
  }

  /// - Parameter outcomes: is set for devices that go nowhere.
  private func plan(_ notification: PushNotification, _ outcomes: inout [DeviceOutcome]) -> [Work] {
    var works: [Work] = []
    /// The last work of an app that takes several.
    var open: [Int: Int] = [:]
    var occurrences: [PushIdentity: UInt32] = [:]
    for (index, device) in notification.devices.enumerated() {
      let chosen: Int
      switch selection.app(for: device.appID) {
      case .app(let found): chosen = found
      case .unknown:
        outcomes[index] = reject(.unknownApp)
        continue
      case .ambiguous:
        outcomes[index] = reject(.ambiguousApp)
        continue
      }
      let app = apps[chosen]
      app.metrics.received()
      let identity = notification.eventID.unlessEmpty.map { event in
        let identity = PushIdentity(app: app.app.name, device: device, eventID: event)
        defer { occurrences[identity, default: 0] += 1 }
        return identity.occurring(occurrences[identity] ?? 0)
      }
      if let place = open[chosen], works[place].members.count < Self.tokensMax {
        works[place].members.append(index)
        if let identity { works[place].identities?.append(identity) }
      } else {
        if case .fcmLegacy = app.app.service { open[chosen] = works.count }
        works.append(Work(app: app, members: [index], identities: identity.map { [$0] }))
      }
    }
    return works
  }

  private func reject(_ reason: PushReason) -> DeviceOutcome {
    GatewayMetrics.rejected(app: "none", reason)
    logger.info("push key rejected", metadata: ["app": "none", "reason": "\(reason)"])
    return .rejected(reason)
  }

  // MARK: One request to the provider

  /// All of one app. - Parameter works: at least one.
  private func carry(
    _ works: [Work], of notification: PushNotification, _ deadline: ContinuousClock.Instant
  ) async -> [(Int, DeviceOutcome)] {
    let ended = await sideBySide(works.count, widthMax: works[0].app.app.sideBySideMax) { index in
      await carry(works[index], of: notification, deadline)
    }
    return ended.flatMap(\.self)
  }

  private func carry(
    _ work: Work, of notification: PushNotification, _ deadline: ContinuousClock.Instant
  ) async -> [(Int, DeviceOutcome)] {
    guard let identities = work.identities else {
      let outcomes = await push(work.members, of: work, notification, deadline)
      return Array(zip(work.members, outcomes))
    }
    var ended: [(Int, DeviceOutcome)] = []
    var ours: [Int] = []
    var others: [Int] = []
    for place in work.members.indices {
      switch book.claim(identities[place]) {
      case .known(let outcome):
        work.app.metrics.repeated()
        ended.append((work.members[place], outcome))
      case .ours: ours.append(place)
      case .underWay: others.append(place)
      }
    }
    if !ours.isEmpty {
      ended += await carryOut(ours, of: work, identities, notification, deadline)
    }
    // Only when ours are settled: the other request may wait for them.
    for place in others {
      ended.append(
        (work.members[place], await join(identities, place, work, notification, deadline)))
    }
    return ended
  }

  /// A push that another request is about: waits for that, and takes it on should it have been given up.
  private func join(
    _ identities: [PushIdentity], _ place: Int, _ work: Work, _ notification: PushNotification,
    _ deadline: ContinuousClock.Instant
  ) async -> DeviceOutcome {
    let identity = identities[place]
    work.app.metrics.repeated()
    while !Task.isCancelled {
      if let outcome = await book.outcome(of: identity) { return outcome }
      switch book.claim(identity) {
      case .known(let outcome): return outcome
      case .underWay: continue
      case .ours:
        return await carryOut([place], of: work, identities, notification, deadline)[0].1
      }
    }
    return .failed(.cancelled)
  }

  // MARK: What other processes do

  /// How often it is looked whether a push has ended that another process is about.
  private static let lookPause = Duration.milliseconds(200)

  /// Pushes what no other process has pushed, and waits for what another one is about.
  /// - Parameter ours: places among the members, claimed in this process; at least one.
  /// - Returns: members with their outcomes, one for each of `ours`, in any order.
  private func carryOut(
    _ ours: [Int], of work: Work, _ identities: [PushIdentity], _ notification: PushNotification,
    _ deadline: ContinuousClock.Instant
  ) async -> [(Int, DeviceOutcome)] {
    var ended: [(Int, DeviceOutcome)] = []
    var left = ours
    while true {
      var (toPush, elsewhere): ([Int], [Int]) = ([], [])
      let claims = await board?.claim(left.map { identities[$0].mark }, by: claimant)
      for (index, place) in left.enumerated() {
        switch claims?[index] ?? .ours {
        case .ours: toPush.append(place)
        case .underWay: elsewhere.append(place)
        case .settled(let result):
          let outcome: DeviceOutcome = result == .served ? .served : .rejected(.remembered)
          work.app.metrics.repeated()
          book.settle(identities[place], outcome)
          ended.append((work.members[place], outcome))
        }
      }
      if !toPush.isEmpty {
        let outcomes = await push(toPush.map { work.members[$0] }, of: work, notification, deadline)
        await settle(Array(zip(toPush.map { identities[$0] }, outcomes)))
        ended += zip(toPush.map { work.members[$0] }, outcomes)
      }
      guard !elsewhere.isEmpty else { return ended }
      guard now() < deadline, await Pause.for(Self.lookPause) else {
        for place in elsewhere {
          book.settle(identities[place], nil)
          ended.append((work.members[place], .failed(Task.isCancelled ? .cancelled : .deadline)))
        }
        return ended
      }
      left = elsewhere
    }
  }

  /// A failure under a caller that has gone says nothing to others that wait for the same push.
  private func settle(_ pushes: [(PushIdentity, DeviceOutcome)]) async {
    let isAbandoned = Task.isCancelled
    if let board {
      // In a task of its own: the caller's cancellation does not reach it.
      let results = pushes.map { (push: $0.mark, result: $1.remembered) }
      await Task { [claimant] in await board.settle(results, by: claimant) }.value
    }
    for (identity, outcome) in pushes {
      let isTold = if isAbandoned, case .failed = outcome { false } else { true }
      book.settle(identity, isTold ? outcome : nil)
    }
  }

  /// - Parameter members: places in the notification; at least one.
  /// - Returns: one for each of `members`.
  private func push(
    _ members: [Int], of work: Work, _ notification: PushNotification, _ deadline: ContinuousClock.Instant
  ) async -> [DeviceOutcome] {
    let devices = notification.devices
    var outcomes: [DeviceOutcome] = []
    let first = await work.app.within {
      guard members.count > 1 || work.members.count > 1 else {
        return await work.app.push(notification, to: devices[members[0]], deadline: deadline)
      }
      outcomes = await work.app.pushTogether(
        notification, to: members.map { devices[$0] }, like: devices[work.members[0]], deadline: deadline)
      return outcomes[0]
    }
    // One that was not let in speaks for all.
    if outcomes.isEmpty { outcomes = members.map { _ in first } }
    for outcome in outcomes { note(outcome, of: work.app) }
    return outcomes
  }

  private func note(_ outcome: DeviceOutcome, of app: GatewayApp) {
    let what: String
    let why: PushReason
    switch outcome {
    case .served: return
    case .dropped(let reason): (what, why) = ("push dropped", reason)
    case .rejected(let reason): (what, why) = ("push key rejected", reason)
    case .failed(let reason, _): (what, why) = ("push failed", reason)
    }
    app.metrics.ended(outcome)
    logger.info("\(what)", metadata: ["app": "\(app.app.name)", "reason": "\(why)"])
  }
}

/// Runs `count` pieces of work side by side, at most `widthMax` at a time; the others begin in their order, each as one
/// ends.
/// - Returns: what each came to, in their order.
private func sideBySide<Value: Sendable>(
  _ count: Int, widthMax: Int, _ work: @escaping @Sendable (Int) async -> Value
) async -> [Value] {
  await withTaskGroup(of: (Int, Value).self) { group in
    var values = [Value?](repeating: nil, count: count)
    var begun = 0
    func begin() {
      guard begun < count else { return }
      let index = begun
      begun += 1
      group.addTask { (index, await work(index)) }
    }
    for _ in 0..<min(count, max(1, widthMax)) { begin() }
    for await (index, value) in group {
      values[index] = value
      begin()
    }
    return values.compactMap(\.self)
  }
}

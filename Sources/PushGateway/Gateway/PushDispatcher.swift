package import Logging
import Push

/// Carries a notification to its devices: side by side, each with an outcome of its own (reference 9, 12, 13).
package struct PushDispatcher: Sendable {
  /// Devices of one request and one app that are under way at a time: a homeserver names one, a few at most. As many as
  /// an app has under way in all, where nothing else is configured: were there fewer, devices whose services are silent
  /// would keep the others waiting.
  private static let widthMax = 512
  /// By which a device may go before the next one of its app.
  private static let headStartMax = Duration.seconds(1)
  /// Tokens that legacy FCM takes in one request.
  private static let tokensMax = 1000

  private let selection: PushAppSelection
  private let apps: [GatewayApp]
  private let book: OutcomeBook
  private let logger: Logger
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameter rememberedMax: outcomes that are kept for repeated requests.
  package init(
    apps: [GatewayApp], rememberedMax: Int, logger: Logger,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.apps = apps
    self.logger = logger
    self.now = now
    selection = PushAppSelection(names: apps.map(\.app.name))
    book = OutcomeBook(max: rememberedMax, now: now)
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
    return .rejected(reason)
  }

  // MARK: One request to the provider

  /// All of one app. - Parameter works: at least one.
  private func carry(
    _ works: [Work], of notification: PushNotification, _ deadline: ContinuousClock.Instant
  ) async -> [(Int, DeviceOutcome)] {
    // However many they are, in half of the time all have begun.
    let headStart = min(Self.headStartMax, (deadline - now()) / (2 * works.count))
    let ended = await staggered(works.count, headStart: headStart, widthMax: Self.widthMax) { index in
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
      let outcomes = await push(ours.map { work.members[$0] }, of: work, notification, deadline)
      for (place, outcome) in zip(ours, outcomes) {
        settle(identities[place], outcome)
        ended.append((work.members[place], outcome))
      }
    }
    // Only when ours are settled: the other request may wait for them.
    for place in others {
      ended.append(
        (work.members[place], await join(identities[place], work.members[place], work, notification, deadline)))
    }
    return ended
  }

  /// A push that another request is about: waits for that, and takes it on should it have been given up.
  private func join(
    _ identity: PushIdentity, _ member: Int, _ work: Work, _ notification: PushNotification,
    _ deadline: ContinuousClock.Instant
  ) async -> DeviceOutcome {
    work.app.metrics.repeated()
    while !Task.isCancelled {
      if let outcome = await book.outcome(of: identity) { return outcome }
      switch book.claim(identity) {
      case .known(let outcome): return outcome
      case .underWay: continue
      case .ours:
        let outcome = await push([member], of: work, notification, deadline)[0]
        settle(identity, outcome)
        return outcome
      }
    }
    return .failed(.cancelled)
  }

  /// What failed under a caller that has gone says nothing to those who wait for it too.
  private func settle(_ identity: PushIdentity, _ outcome: DeviceOutcome) {
    if Task.isCancelled, case .failed = outcome { return book.settle(identity, nil) }
    book.settle(identity, outcome)
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

import Logging
import Push
import RelayCore

/// Carries one claimed job out: looks whether it is still wanted, sends, and says what is to become of it.
struct WakeSender: Sendable {
  let parts: WakeParts
  let settings: WakingSettings

  /// - Parameter isConnected: whether the device was told over a live connection.
  func carryOut(_ job: WakeJob, isConnected: Bool) async -> WakeSettlement {
    if job.isExpired { return over(job, .expired) }
    do throws(StoreError) {
      if isConnected, !job.isForced || job.followsCall { return try await connected(job) }
      guard let device = try await parts.store.account(job.device.account)?.device(job.device.device),
        let provider = device.pushIDs.provider
      else { return over(job, .unregistered) }
      // It may have another one by now.
      guard let lane = parts.lanes[provider] else { return try await leave(job, to: provider) }
      let glance = try await parts.store.glance(at: job.device, countingTo: Self.glanceMax)
      if !job.isTest {
        if glance.count == 0 { return over(job, .fetched) }
        if provider == .apns, glance.messages == 0, glance.count < Self.glanceMax { return over(job, .receipts) }
      }
      let content = try await content(of: job, to: device, glance)
      return try await send(job, device, provider, lane, glance, content)
    } catch {
      parts.logger.warning("a device could not be looked at before it was woken", metadata: ["error": "\(error)"])
      return WakeSettlement(job, .putOff(settings.backOff.first), attempt: nil)
    }
  }

  /// To the processes that have the keys of `provider`, which this one has not.
  private func leave(_ job: WakeJob, to provider: WakeProvider) async throws(StoreError) -> WakeSettlement {
    guard settings.served.serves(provider) else { return over(job, .unconfigured) }
    // Asked for anew, the job is that of the device's provider.
    _ = try await parts.store.askToWake(
      [WakeAsk(job.device, after: .zero)], afterForgetting: [], settings.terms)
    return WakeSettlement(job, .putOff(.zero, counts: false), attempt: nil)
  }

  /// The entry of a connection may outlive it for a while. So if something still waits, the device is looked at
  /// again.
  private func connected(_ job: WakeJob) async throws(StoreError) -> WakeSettlement {
    let over = over(job, .connected)
    guard job.attempt <= Self.looksMax, try await parts.store.glance(at: job.device, countingTo: 1).count > 0 else {
      return over
    }
    // A test is told of the finding.
    return WakeSettlement(
      job, .lookAgain(after: .seconds(Int.random(in: 60...90))), attempt: job.isTest ? over.attempt : nil)
  }

  private static let looksMax = 10

  /// Envelopes that are looked at for the badge.
  private static let glanceMax = 100

  /// nil where the push says nothing of what waits.
  private func content(of job: WakeJob, to device: Device, _ glance: MailboxGlance) async throws(StoreError)
    -> WakePayload.Content?
  {
    guard settings.sendsContent, glance.count == 1 else { return nil }
    let pages = try await parts.store.waiting([MailboxRead(job.device, held: [], limit: 2)])
    guard let page = pages.first, page.count == 1, let queued = page.first else { return nil }
    return parts.seal(queued.envelope, device.signalingKey).map {
      WakePayload.Content(sealed: $0, isReceipt: queued.envelope.type == .receipt)
    }
  }

  // MARK: Sending

  private func send(
    _ job: WakeJob, _ device: Device, _ provider: WakeProvider, _ lane: PushLane, _ glance: MailboxGlance,
    _ content: WakePayload.Content?
  ) async throws(StoreError) -> WakeSettlement {
    var sent = Sent(job: job, provider: provider, isWanted: !job.isTest || glance.count > 0)
    let now = parts.clock.now()
    // Times of the store; this process's clock may differ.
    let expires = now.adding(.milliseconds(max(0, job.expires.millis - job.claimed.millis)))
    let outcome: PushOutcome? =
      switch provider {
      case .fcm: await sendFCM(to: device, content, by: lane, expires: expires, now: now, &sent)
      case .apns: await sendAPNs(to: device, glance, content, by: lane, expires: expires, now: now, &sent)
      case .webPush: await sendWebPush(to: device, content, by: lane, expires: expires, &sent)
      }
    guard let outcome else { return over(job, .unregistered) }
    return try await settle(outcome, sent)
  }

  /// - Returns: nil if the device has no id there any more.
  private func sendFCM(
    to device: Device, _ content: WakePayload.Content?, by lane: PushLane, expires: Timestamp, now: Timestamp,
    _ sent: inout Sent
  ) async -> PushOutcome? {
    guard let token = device.pushIDs.fcm else { return nil }
    sent.id = (.fcm, token)
    return await push(content, by: lane, &sent) { .fcm(to: token, $0, expires: expires, now: now) }
  }

  /// As a call if the device takes calls, and has not been called already.
  /// - Returns: nil if the device has no id there any more.
  private func sendAPNs(
    to device: Device, _ glance: MailboxGlance, _ content: WakePayload.Content?, by lane: PushLane,
    expires: Timestamp, now: Timestamp, _ sent: inout Sent
  ) async -> PushOutcome? {
    let badge = glance.count < Self.glanceMax ? glance.messages : nil
    if let voip = device.pushIDs.voip, !sent.job.followsCall {
      sent.id = (.voip, voip)
      let end = min(expires, now.adding(settings.callPatience))
      return await push(WakePayload.call(to: voip, badge: badge, expires: end), by: lane, &sent)
    }
    guard let token = device.pushIDs.apns else { return nil }
    sent.id = (.apns, token)
    return await push(content, by: lane, &sent) { .apns(to: token, $0, badge: badge, expires: expires) }
  }

  /// - Returns: nil if the device has no subscription any more.
  private func sendWebPush(
    to device: Device, _ content: WakePayload.Content?, by lane: PushLane, expires: Timestamp, _ sent: inout Sent
  ) async -> PushOutcome? {
    guard let id = device.pushIDs.webPush else { return nil }
    sent.id = (.webPush, id)
    guard let registration = WebPushRegistration(id: id), let subscription = WebPushSubscription(registration) else {
      return .dead(.badSubscription)
    }
    return await push(content, by: lane, &sent) { .webPush(to: subscription, $0, expires: expires) }
  }

  /// The push that was sent, its target, and how long the answer took.
  private struct Sent {
    let job: WakeJob
    let provider: WakeProvider
    /// False for a test while nothing waits: nobody follows it further than its first push.
    let isWanted: Bool
    var id: (kind: PushIDKind, value: Secret)?
    var kind: WakeAttempt.Kind?
    var latency: Duration?

    init(job: WakeJob, provider: WakeProvider, isWanted: Bool) {
      self.job = job
      self.provider = provider
      self.isWanted = isWanted
    }
  }

  /// Pushes with the content, and once more without it if the provider refuses the message for it.
  private func push(
    _ content: WakePayload.Content?, by lane: PushLane, _ sent: inout Sent,
    _ payload: (WakePayload.Content?) -> WakePayload
  ) async -> PushOutcome {
    let full = payload(content)
    let outcome = await push(full, by: lane, &sent)
    guard full.kind == .content, outcome.refusesMessage else { return outcome }
    return await push(payload(nil), by: lane, &sent)
  }

  private func push(_ payload: WakePayload, by lane: PushLane, _ sent: inout Sent) async -> PushOutcome {
    let began = ContinuousClock.now
    let outcome = await lane.send(payload.message, deadline: began + settings.attempt)
    // A push that the lane kept back was not sent.
    let isSent = outcome.reason?.kind != .local
    sent.kind = isSent ? payload.kind : nil
    sent.latency = isSent ? .now - began : nil
    if isSent { parts.metrics.sent(sent.provider, payload.kind) }
    return outcome
  }

  // MARK: What becomes of it

  private func settle(_ outcome: PushOutcome, _ sent: Sent) async throws(StoreError) -> WakeSettlement {
    switch outcome {
    case .delivered(_, let canonical):
      try await follow(canonical, sent)
      return sent.kind == .call
        ? settlement(sent, call(after: settings.callPatience, sent), .delivered, nil)
        : settlement(sent, rest, .delivered, nil)
    case .dead(let reason, let since):
      // Else the operator's mistake, or that of something in between, as a rule: the device's id is good.
      guard reason.isOfRegistration(at: sent.provider) else { return refused(reason, sent) }
      return try await dead(reason, since: since, sent)
    case .refused(let reason):
      if reason == .expired { return settlement(sent, .drop, .expired, nil) }
      // Nothing passes until the operator has put it right; then this does.
      if reason.kind == .credentials { return try await putOff(reason, nil, sent) }
      return refused(reason, sent)
    case .temporary(let reason, let retryAfter): return try await putOff(reason, retryAfter, sent)
    case .several: return refused(PushReason(.server, "unreadable"), sent)
    }
  }

  private var rest: WakeDisposal { .rest(pause: settings.pause, memory: settings.memory) }

  private func call(after pause: Duration, _ sent: Sent) -> WakeDisposal {
    sent.isWanted ? .follow(after: pause) : .drop
  }

  /// A VoIP push that is refused leaves the ordinary one.
  private func refused(_ reason: PushReason, _ sent: Sent) -> WakeSettlement {
    settlement(sent, sent.id?.kind == .voip ? call(after: .zero, sent) : rest, .refused, reason)
  }

  private func putOff(_ reason: PushReason, _ asked: Duration?, _ sent: Sent) async throws(StoreError) -> WakeSettlement
  {
    // A push that the lane kept back for a provider in trouble says nothing of this device. It counts as no attempt,
    // and is written down once.
    if reason == .halted {
      let newest = try await parts.store.wakeHistory(of: sent.job.device).first
      let isKnown = newest?.answer == reason.word && newest?.isTest == sent.job.isTest
      let age = Duration.milliseconds(sent.job.claimed.millis - sent.job.requested.millis)
      let wait = settings.backOff.waitWhileHalted(of: sent.provider, asked: asked, age: age)
      return settlement(sent, .putOff(wait, counts: false), .putOff, reason, isRecorded: !isKnown)
    }
    let wait = settings.backOff.wait(after: sent.job.attempt, asked: asked, spread: Double.random(in: 0...1))
    return settlement(sent, .putOff(wait), .putOff, reason)
  }

  private func dead(_ reason: PushReason, since: Timestamp?, _ sent: Sent) async throws(StoreError) -> WakeSettlement {
    guard let id = sent.id else { return settlement(sent, .drop, .dead, reason) }
    let isCleared = try await parts.store.changePushID(
      id.kind, of: sent.job.device, from: id.value, to: nil, registeredBefore: since)
    guard isCleared else {
      // At once to the id that the device has by now; but never round and round.
      let isEarly = sent.job.attempt <= Self.turnsMax
      return settlement(sent, isEarly ? .putOff(.zero) : rest, .superseded, reason)
    }
    await parts.signals.publish(.accountChanged(sent.job.device.account))
    return settlement(sent, id.kind == .voip ? call(after: .zero, sent) : .drop, .dead, reason)
  }

  private static let turnsMax = 3

  /// A provider that says another id from now on.
  private func follow(_ canonical: PushTarget?, _ sent: Sent) async throws(StoreError) {
    guard case .fcm(let token) = canonical, let id = sent.id, id.kind == .fcm, token != id.value.value else { return }
    let isReplaced = try await parts.store.changePushID(
      .fcm, of: sent.job.device, from: id.value, to: Secret(token), registeredBefore: nil)
    if isReplaced { await parts.signals.publish(.accountChanged(sent.job.device.account)) }
  }

  /// It ended before anything was sent.
  private func over(_ job: WakeJob, _ outcome: WakeAttempt.Outcome) -> WakeSettlement {
    let attempt = WakeAttempt(
      asked: job.requested, claimed: job.claimed, number: job.attempt, provider: job.provider, kind: nil, answer: nil,
      status: nil, latency: nil, outcome: outcome, isTest: job.isTest)
    // An attempt that needed no push does not explain to the operator why a device was not woken.
    let isNeeded = ![.connected, .fetched, .receipts].contains(outcome)
    return WakeSettlement(job, .drop, attempt: attempt, isRecorded: isNeeded || job.isTest)
  }

  private func settlement(
    _ sent: Sent, _ disposal: WakeDisposal, _ outcome: WakeAttempt.Outcome, _ reason: PushReason?,
    isRecorded: Bool = true
  ) -> WakeSettlement {
    let status = reason.map(\.status) ?? (outcome == .delivered ? 200 : nil)
    let attempt = WakeAttempt(
      asked: sent.job.requested, claimed: sent.job.claimed, number: sent.job.attempt, provider: sent.provider,
      kind: sent.kind, answer: reason?.word, status: status, latency: sent.latency, outcome: outcome,
      isTest: sent.job.isTest)
    return WakeSettlement(sent.job, disposal, attempt: attempt, isRecorded: isRecorded)
  }
}

extension PushOutcome {
  /// The provider will not take this message, as it is: too large for it, for one.
  fileprivate var refusesMessage: Bool {
    if case .refused(let reason) = self { reason.kind == .message && !reason.isOfTopic } else { false }
  }
}

extension PushReason {
  /// Whether it is about the configured app, whatever the id.
  fileprivate var isOfTopic: Bool { WakeFault.topicWords.contains(word) }

  /// Whether it says that this id is registered no more, and not only that the provider has nothing there. A proxy's
  /// 404, or a wrong setting of ours, would else clear the ids of all devices.
  func isOfRegistration(at provider: WakeProvider) -> Bool {
    // Our own word, for a token that cannot be an id at all.
    if word == "bad-device-token" { return true }
    return switch provider {
    // 400 where the answer names the token as what is wrong.
    case .fcm: word == "UNREGISTERED" || status == 400
    case .apns: status == 410
    // RFC 8030, 7.3; and what cannot be a subscription at all.
    case .webPush: status == 404 || status == 410 || self == .badSubscription
    }
  }
}

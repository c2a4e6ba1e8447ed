package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Submitting, fetching and acknowledging messages, and receipts (reference 1.8, 1.9).
package struct MessagesController: Sendable {
  private let store: any MessageStore
  private let intake: LocalIntake
  private let courier: any Courier
  private let homes: any HomeFinder
  private let limiter: any RateLimiter
  private let gate: CorrespondenceGate
  private let deliveryReceipts: DeliveryReceipts
  private let lastSeen: LastSeen
  private let senders: TopSenders
  private let legacy: LegacySubmission
  private let receipts: ReceiptsController

  package init(
    store: any MessageStore, intake: LocalIntake, courier: any Courier, homes: any HomeFinder,
    limiter: any RateLimiter, gate: CorrespondenceGate, deliveryReceipts: DeliveryReceipts, lastSeen: LastSeen,
    senders: TopSenders
  ) {
    self.store = store
    self.intake = intake
    self.courier = courier
    self.homes = homes
    self.limiter = limiter
    self.gate = gate
    self.deliveryReceipts = deliveryReceipts
    self.lastSeen = lastSeen
    self.senders = senders
    legacy = LegacySubmission(
      intake: intake, courier: courier, homes: homes, limiter: limiter, gate: gate, senders: senders)
    receipts = ReceiptsController(
      store: store, intake: intake, courier: courier, homes: homes, limiter: limiter, gate: gate)
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/messages", [(.get, pending), (.post, submitLegacy)])
    router.resource("/v1/messages/:number", [(.put, submit)])
    router.resource("/v1/messages/:number/:timestamp", [(.delete, acknowledge)])
    receipts.addRoutes(to: router)
  }

  @Sendable private func submit(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let destination = try context.number("number")
    let sender = context.caller.address
    let body = try await context.jsonBody(of: request, max: WireLimits.messageRequestBytesMax)
    let bundle = try body.decodeJSON { json throws(JSONError) in try MessageBundle.decode(json) }
    let submission = bundle.submission(to: destination, coverage: .activeDevices, request: .current)
    try await limiter.chargeMessages(submission.messagesPerDeviceMax, LimitKey(sender.account, destination))
    let acceptance = try await gate.reach(destination, by: sender.account) { () async throws(Problem) in
      // Through no relay, whatever it is called (reference 1.8), and whoever else says that he has the number.
      if destination == sender.account {
        guard bundle.relay == nil else { throw Problem(.syncThroughRelay) }
        return try await intake.accept(submission, from: .client(sender))
      }
      guard let relay = try await homes.relay(for: destination, named: bundle.relay) else {
        return try await intake.accept(submission, from: .client(sender))
      }
      return try await forward(submission, from: context.caller, to: relay)
    }
    senders.note(submission.messages.count, from: sender.account)
    return .accepted(acceptance)
  }

  private func forward(_ submission: Submission, from caller: Caller, to relay: RelayName) async throws(Problem)
    -> Acceptance
  {
    try await courier.submit(submission, from: caller.address, to: relay)
    return intake.acceptance(of: submission, by: caller)
  }

  @Sendable private func submitLegacy(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.messageRequestBytesMax)
    let lists = try await legacy.submit(try body.decodeJSON(LegacyBundle.decode), from: context.caller.address)
    return .json(LegacyBundle.encode(success: lists.success, failure: lists.failure))
  }

  @Sendable private func pending(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    do throws(StoreError) {
      let page = try await page(of: context.caller.address)
      await lastSeen.note(context.caller, logger: context.logger)
      return .json(MailboxCodec.encode(page.envelopes, more: page.isCut))
    } catch {
      throw Problem(error)
    }
  }

  /// Read in steps, so that no more than a step beyond the page's bytes is ever held.
  private func page(of mailbox: DeviceAddress) async throws(StoreError) -> (envelopes: [QueuedEnvelope], isCut: Bool) {
    var page: [QueuedEnvelope] = []
    var bytes = 0
    while page.count < WireLimits.messagesPerPage {
      let step = try await store.pending(in: mailbox, after: page.last?.sequence ?? 0, limit: Self.step)
      for envelope in step where bytes < WireLimits.messagePageBytesMax {
        page.append(envelope)
        bytes += envelope.envelope.byteCount
      }
      if bytes >= WireLimits.messagePageBytesMax { return (page, true) }
      if step.count < Self.step { return (page, false) }
    }
    return (page, true)
  }

  /// Divides a page; most mailboxes hold less.
  private static let step = 20

  /// Success also when nothing matched (reference 1.9).
  @Sendable private func acknowledge(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let timestamp = try context.timestamp()
    guard let source = AccountNumber(e164: try context.segment("number")) else { return .done }
    let mailbox = context.caller.address
    do throws(StoreError) {
      var last: Int64 = 0
      // Another acknowledgement may be removing the oldest: then the next one is meant.
      while let queued = try await store.oldest(from: source, timestamp: timestamp, in: mailbox, after: last) {
        if try await remove(queued, from: mailbox) { break }
        last = queued.sequence
      }
    } catch {
      throw Problem(error)
    }
    return .done
  }

  /// - Returns: false when it is gone, or another acknowledgement is removing it.
  private func remove(_ queued: QueuedEnvelope, from mailbox: DeviceAddress) async throws(StoreError) -> Bool {
    let place = MailboxPlace(mailbox, sequence: queued.sequence)
    let receipt = DeliveryReceipt(for: queued.envelope)
    guard try await deliveryReceipts.remove(one: .init(place: place, receipt: receipt)) else { return false }
    intake.removed(queued, from: mailbox)
    return true
  }
}

extension Response {
  /// `{"needsSync": bool}`.
  fileprivate static func accepted(_ acceptance: Acceptance) -> Response {
    var writer = JSONWriter(capacity: 24)
    writer.beginObject()
    writer.key("needsSync")
    writer.boolean(acceptance.needsSync)
    writer.endObject()
    return .json(writer.bytes)
  }
}

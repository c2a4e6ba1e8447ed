// One device's push: what it is sent, and what the provider's answer means for it (reference 4 to 7).

import OrderedCollections
import Push
import RelayCore

extension GatewayApp {
  /// - Parameter deadline: it has ended by then, one way or another.
  func push(
    _ notification: PushNotification, to device: NotifiedDevice, deadline: ContinuousClock.Instant
  ) async -> DeviceOutcome {
    switch app.service {
    case .apns(let apns): await push(notification, to: device, apns, deadline: deadline)
    case .fcm(let fcm): await push(notification, to: device, fcm, deadline: deadline)
    case .webPush(let webPush): await push(notification, to: device, webPush, deadline: deadline)
    case .fcmLegacy: await pushTogether(notification, to: [device], like: device, deadline: deadline)[0]
    }
  }

  private func push(
    _ notification: PushNotification, to device: NotifiedDevice, _ apns: PushApp.APNs,
    deadline: ContinuousClock.Instant
  ) async -> DeviceOutcome {
    let payload: [UInt8]
    switch APNsPayload(notification, device: device, sendsCounts: apns.sendsCounts) {
    case .nothing: return .served
    case .unusableDefault: return .rejected(.unusableDefault)
    case .tooLarge: return .dropped(.hopelesslyLarge)
    case .send(let bytes): payload = bytes
    }
    guard let token = APNsDeviceToken.token(from: device.pushKey, converts: apns.convertsDeviceToken) else {
      return .rejected(.undecodableKey)
    }
    let message = PushMessage(
      to: .apns(deviceToken: token), PushPayload(payload), urgency: notification.isLowPriority ? .low : .high,
      kind: apns.pushType)
    return DeviceOutcome(await lane.send(message, deadline: deadline))
  }

  private func push(
    _ notification: PushNotification, to device: NotifiedDevice, _ fcm: PushApp.FCM,
    deadline: ContinuousClock.Instant
  ) async -> DeviceOutcome {
    let message = FCMMessage(notification, device: device, options: fcm.options, sendsCounts: fcm.sendsCounts)
    switch message {
    case .nothing: return .served
    case .unusableDefault: return .rejected(.unusableDefault)
    case .tooLarge: return .dropped(.hopelesslyLarge)
    case .send(let bytes):
      let message = PushMessage(
        to: .fcm(registrationToken: device.pushKey), PushPayload(bytes),
        urgency: notification.isLowPriority ? .low : .high)
      return DeviceOutcome(await lane.send(message, deadline: deadline))
    }
  }

  // MARK: WebPush

  private func push(
    _ notification: PushNotification, to device: NotifiedDevice, _ webPush: PushApp.WebPush,
    deadline: ContinuousClock.Instant
  ) async -> DeviceOutcome {
    guard let data = device.data else { return .rejected(.incompleteSubscription) }
    if data["events_only"] == .boolean(true), notification.eventID.unlessEmpty == nil { return .served }
    guard let subscription = WebPushSubscription(device, data) else { return .rejected(.incompleteSubscription) }
    guard let text = WebPushText.text(notification, device: device) else { return .dropped(.hopelesslyLarge) }
    let isLast = data["only_last_per_room"] == .boolean(true)
    var message = PushMessage(
      to: .webPush(subscription), PushPayload(text), urgency: notification.isLowPriority ? .low : .normal,
      collapse: isLast ? notification.roomID.unlessEmpty.map(RoomTopic.topic) : nil)
    let outcome = await lane.send(message, deadline: deadline)
    guard case .refused(let reason) = outcome, reason.isTooLarge, let brief = WebPushText.brief(notification, device)
    else { return DeviceOutcome(webPush: outcome) }
    // This service takes less than the standard says: the ids alone, once.
    message = PushMessage(
      to: .webPush(subscription), PushPayload(brief), urgency: message.urgency, collapse: message.collapse)
    return DeviceOutcome(webPush: await lane.send(message, deadline: deadline))
  }

  // MARK: Legacy FCM

  /// Pushes to several devices in one request, where the service can; else to each.
  /// - Parameters:
  ///   - devices: all of the notification that are this app's, and not known to be served.
  ///   - first: the first of them, served or not: its default payload is that of all.
  /// - Returns: one for each of `devices`.
  func pushTogether(
    _ notification: PushNotification, to devices: [NotifiedDevice], like first: NotifiedDevice,
    deadline: ContinuousClock.Instant
  ) async -> [DeviceOutcome] {
    guard case .fcmLegacy(let legacy) = app.service else {
      var outcomes: [DeviceOutcome] = []
      for device in devices { outcomes.append(await push(notification, to: device, deadline: deadline)) }
      return outcomes
    }
    let body: FCMLegacyBody
    switch FCMLegacyMessage(notification, device: first, options: legacy.options, sendsCounts: legacy.sendsCounts) {
    case .nothing: return devices.map { _ in .served }
    case .unusableDefault: return devices.map { _ in .rejected(.unusableDefault) }
    case .send(let made): body = made
    }
    var exchange = FCMLegacyExchange(tokens: devices.map(\.pushKey))
    var action = exchange.begin
    while true {
      switch action {
      case .finish(let outcomes): return outcomes.map { DeviceOutcome(fcmLegacy: $0) }
      case .send(let tokens, let pause):
        guard await Self.pause(pause, before: deadline, time) else {
          action = exchange.givenUp()
          continue
        }
        let message = PushMessage(
          to: .fcmLegacy(registrationTokens: tokens), PushPayload(body.bytes(to: tokens)),
          urgency: notification.isLowPriority ? .low : .high)
        action = exchange.answered(await lane.send(message, deadline: deadline))
      }
    }
  }

  /// - Returns: false when there is no time for it, or the task was cancelled.
  private static func pause(_ pause: Duration, before deadline: ContinuousClock.Instant, _ time: PushTime) async -> Bool
  {
    guard pause > .zero else { return true }
    guard time.now() + pause < deadline else { return false }
    do {
      try await time.sleep(pause)
      return true
    } catch {
      return false
    }
  }
}

extension WebPushSubscription {
  /// nil where something is missing, or broken, that every push would need.
  fileprivate init?(_ device: NotifiedDevice, _ data: JSONObject) {
    guard let endpoint = data["endpoint"]?.text, let secret = data["auth"]?.text else { return nil }
    self.init(endpoint: endpoint, p256dh: device.pushKey, auth: secret)
  }
}

extension DeviceOutcome {
  /// The rule for every service.
  init(_ outcome: PushOutcome) {
    switch outcome {
    case .delivered: self = .served
    case .dead(let reason, _): self = .rejected(reason)
    case .refused(let reason): self = .failed(reason)
    case .temporary(let reason, let retryAfter): self = .failed(reason, retryAfter: retryAfter)
    // Several answers to one push: nobody can tell which is its own.
    case .several: self = .failed(PushReason(.server, "unreadable"))
    }
  }

  /// Gives a push up that the service refuses (reference 7.2, 7.5; 13, number 3), whose endpoint is not allowed, or
  /// whose text is too large even at its shortest. That is also so for a key that the subscription was not made for: a
  /// repeat changes nothing before the key of the app does. All else failed.
  fileprivate init(webPush outcome: PushOutcome) {
    if case .refused(let reason) = outcome, reason.isHopeless || reason.isTooLarge {
      self = .dropped(reason)
    } else {
      self.init(outcome)
    }
  }

  /// Reference 6: these are dropped, and the push key kept.
  fileprivate init(fcmLegacy outcome: PushOutcome) {
    if case .refused(let reason) = outcome, ["MessageTooBig", "InvalidDataKey", "InvalidTtl"].contains(reason.word) {
      self = .dropped(reason)
    } else {
      self.init(outcome)
    }
  }
}

extension PushReason {
  fileprivate var isTooLarge: Bool { self == .tooLarge || status == 413 }
  fileprivate var isHopeless: Bool {
    status != nil || [.endpointNotAllowed, .privateAddress, .notSecure].contains(self)
  }
}

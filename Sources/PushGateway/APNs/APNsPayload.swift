import OrderedCollections
import RelayCore

/// The payload of a notification for APNs (reference 4.3 to 4.6).
package enum APNsPayload: Sendable, Equatable {
  /// JSON of at most `bytesMax` bytes in the spaced form.
  case send([UInt8])
  /// Neither words nor a badge: the push is served by sending nothing.
  case nothing
  /// The device's default payload is no object: its push key is rejected.
  case unusableDefault
  /// Too large with every text cut away that may be.
  case tooLarge

  /// The size that Apple takes (4,096 bytes), and the reference sends for every push type.
  package static let bytesMax = 4096

  /// - Parameter sendsCounts: the app's `send_badge_counts`.
  package init(_ notification: PushNotification, device: NotifiedDevice, sendsCounts: Bool) {
    let base: JSONObject
    switch device.defaultPayload {
    case .unusable:
      self = .unusableDefault
      return
    case .given(let object): base = object
    case .absent: base = [:]
    }
    let counts = sendsCounts ? notification.counts : NotificationCounts()
    let isEventOnly = notification.eventID.unlessEmpty != nil && notification.type.unlessEmpty == nil
    let payload =
      isEventOnly
      ? Self.eventOnly(notification, counts, base) : Self.full(notification, counts, base)
    guard let payload else {
      self = .nothing
      return
    }
    if let shortened = APNsShortening.shorten(payload, bytesMax: Self.bytesMax) {
      self = .send(shortened)
    } else {
      self = .tooLarge
    }
  }

  /// Reference 4.4.
  private static func eventOnly(
    _ notification: PushNotification, _ counts: NotificationCounts, _ base: JSONObject
  ) -> JSONObject {
    var payload = base
    if let room = notification.roomID.unlessEmpty { payload["room_id"] = .text(room) }
    if let event = notification.eventID { payload["event_id"] = .text(event) }
    if let unread = counts.unread { payload["unread_count"] = .integer(unread) }
    if let missed = counts.missedCalls { payload["missed_calls"] = .integer(missed) }
    return payload
  }

  /// Reference 4.5.
  private static func full(
    _ notification: PushNotification, _ counts: NotificationCounts, _ base: JSONObject
  ) -> JSONObject? {
    let wording = APNsWording(notification)
    guard wording != nil || !counts.isAbsent else { return nil }
    // A notification that brings only counts leaves the app's own words out.
    var payload = notification.type.unlessEmpty == nil ? [:] : base
    var aps = payload["aps"]?.object ?? [:]
    if let wording {
      // An alert that is a text cannot hold the wording, which takes its place.
      var alert = aps["alert"]?.object ?? [:]
      alert["loc-key"] = .text(wording.key)
      alert["loc-args"] = .list(wording.arguments.map { .text($0) })
      aps["alert"] = .object(alert)
    }
    if let badge = badge(counts) { aps["badge"] = .integer(badge) }
    payload["aps"] = .object(aps)
    if wording != nil {
      if let room = notification.roomID.unlessEmpty { payload["room_id"] = .text(room) }
      if let event = notification.eventID.unlessEmpty { payload["event_id"] = .text(event) }
    }
    return payload
  }

  private static func badge(_ counts: NotificationCounts) -> Int64? {
    guard !counts.isAbsent else { return nil }
    let (sum, isTooLarge) = (counts.unread ?? 0).addingReportingOverflow(counts.missedCalls ?? 0)
    return isTooLarge ? .max : sum
  }
}

// Pushes: to wake devices, for Matrix homeservers, and of device notifications.

extension RelayMetric {
  package struct Wakes: MetricSection {
    package static let (title, owner) = ("Push wake-ups", "Waking")

    package let asked = CounterMetric<AskerLabel>(
      "relay_wakes_asked_total", "Devices that were to be woken by push.")
    package let lost = SingleCounter(
      "relay_wakes_lost_total", "Devices to be woken that could not be written down; the sweep finds them.")
    package let sent = CounterMetric<WakeProviderLabel, WakeKindLabel>(
      "relay_wakes_sent_total", "Pushes that were sent to wake devices.")
    package let attempts = CounterMetric<WakeProviderLabel, WakeOutcomeLabel>(
      "relay_wakes_total", "Attempts to wake devices.")
    package let waiting = GaugeMetric<WakeProviderLabel>("relay_wakes_waiting", "Devices that wait to be woken.")
    package let oldest = GaugeMetric<WakeProviderLabel>(
      "relay_wakes_oldest_seconds", "How long the oldest wake-up has waited, in seconds.")
  }

  package struct Push: MetricSection {
    package static let (title, owner) = ("Lanes to the providers", "Push/Lane")

    package let ended = CounterMetric<PushProviderLabel, AppLabel, PushOutcomeLabel>(
      "relay_push_total", "Pushes, each with all its attempts.")
    package let attempts = CounterMetric<PushProviderLabel, AppLabel, PushOutcomeLabel, PushReasonLabel>(
      "relay_push_attempts_total", "Attempts to push.")
    package let duration = TimerMetric<PushProviderLabel, AppLabel>(
      "relay_push_seconds", "How long the provider took to answer a push, in seconds.")
    package let held = GaugeMetric<PushProviderLabel, AppLabel>(
      "relay_push_held", "Pushes that wait for their turn, or are under way.")
    package let halted = GaugeMetric<PushProviderLabel, AppLabel>(
      "relay_push_halted", "Destinations that are left alone, since their provider is in trouble.")
    package let credentialsExpire = GaugeMetric<PushProviderLabel, AppLabel>(
      "relay_push_credentials_expire_seconds", "When the credentials of an app end, in seconds since 1970.")
  }

  package struct Notifications: MetricSection {
    package static let (title, owner) = ("Device notifications", "DeviceNotifications/Pushing")

    package let requests = CounterMetric<NotificationMethodLabel, NotificationResultLabel>(
      "relay_notification_requests_total", "Requests for device notifications.")
    package let pushes = CounterMetric<NotificationServiceLabel, NotificationOutcomeLabel, PushReasonLabel>(
      "relay_notification_pushes_total", "Pushes of device notifications.")
    package let waiting = GaugeMetric<NotificationServiceLabel>(
      "relay_notification_pushes_waiting", "Pushes of device notifications that wait.")
    package let oldest = GaugeMetric<NotificationServiceLabel>(
      "relay_notification_pushes_oldest_seconds",
      "How long the oldest push of a device notification has waited, in seconds.")
    package let eventPushes = CounterMetric<EventOutcomeLabel>(
      "relay_notification_event_pushes_total", "Events that were sent to customers' servers.")
  }

  /// Sygnal's names, which its dashboards know (push gateway reference, 10), and what it lacks.
  package struct Gateway: MetricSection {
    package static let (title, owner) = ("Push gateway", "PushGateway/Gateway")

    package let received = SingleCounter(
      "sygnal_notifications_received_total", "Notifications that homeservers sent.")
    package let devices = SingleCounter(
      "sygnal_notifications_devices_received_total", "Devices in the notifications that homeservers sent.")
    package let inFlight = GaugeMetric<ResourceLabel>(
      "sygnal_requests_in_flight", "Requests of homeservers that are being answered.")
    package let answers = CounterMetric<CodeStatusLabel>(
      "sygnal_pushgateway_status_codes_total", "Answers to homeservers.")
    package let duration = TimerMetric<CodeStatusLabel>(
      "sygnal_notify_time", "How long a notification took to answer, in seconds.")
    package let appDevices = CounterMetric<PushkinLabel>("sygnal_per_pushkin_type_total", "Pushes of each app.")
    package let overloads = CounterMetric<PushkinLabel>(
      "sygnal_inflight_request_limit_drop_total", "Notifications refused because an app had too many under way.")
    package let certificateExpires = GaugeMetric<PushkinLabel>(
      "sygnal_client_cert_expiry", "When an app's client certificate ends, in seconds since 1970.")
    package let repeats = CounterMetric<AppLabel>(
      "relay_push_gateway_repeats_total", "Notifications that were pushed before, and were not again.")
    package let rejected = CounterMetric<AppLabel, PushReasonLabel>(
      "relay_push_gateway_rejected_total", "Push keys that were answered as rejected: homeservers remove them.")
    package let dropped = CounterMetric<AppLabel, PushReasonLabel>(
      "relay_push_gateway_dropped_total", "Pushes that no repetition can deliver, and that were given up.")
    package let failed = CounterMetric<AppLabel, PushReasonLabel>(
      "relay_push_gateway_failed_total", "Pushes that failed: the homeserver is asked to repeat them.")
  }

  /// Sygnal's metrics of one provider.
  package struct GatewayLane: MetricSection {
    package static let (title, owner) = ("Push gateway, by provider", "PushGateway/Gateway")

    package let answers: CounterMetric<PushkinLabel, CodeStatusLabel>
    package let duration: SingleTimer
    package let queued: SingleTimer
    package let active: SingleGauge
    package let pending: SingleGauge

    /// - Parameters:
    ///   - word: Sygnal's for the provider.
    ///   - provider: as it stands in the HELP texts.
    init(_ word: String, of provider: String) {
      answers = CounterMetric("sygnal_\(word)_status_codes_total", "Answers of \(provider).")
      duration = TimerMetric("sygnal_\(word)_request_time", "How long requests to \(provider) took, in seconds.")
      queued = TimerMetric(
        "sygnal_\(word)_queue_time", "How long pushes waited for a connection to \(provider), in seconds.")
      active = GaugeMetric("sygnal_active_\(word)_requests", "Requests to \(provider) that are under way.")
      pending = GaugeMetric(
        "sygnal_pending_\(word)_requests", "Pushes that wait for a connection to \(provider).")
    }
  }
}

// MARK: Labels

package enum AskerLabel: String, ListedLabel {
  package static let name = "by"
  case message, sweep
}

/// The values are the words of `WakeProvider`.
package struct WakeProviderLabel: TextLabel {
  package static let (name, values) = ("provider", LabelValues.listed(["fcm", "apns", "webpush"]))
  package let value: String
  package init(value: String) { self.value = value }
  package static func provider(_ word: String) -> Self { Self(value: word) }
}

/// The values are those of `WakeAttempt.Kind`.
package struct WakeKindLabel: TextLabel {
  package static let (name, values) = ("kind", LabelValues.listed(["wake-up", "content", "call"]))
  package let value: String
  package init(value: String) { self.value = value }
  package static func kind(_ word: String) -> Self { Self(value: word) }
}

/// The values are those of `WakeAttempt.Outcome`.
package struct WakeOutcomeLabel: TextLabel {
  package static let (name, values) = (
    "outcome",
    LabelValues.listed([
      "delivered", "connected", "fetched", "receipts", "unregistered", "unconfigured", "dead", "superseded", "refused",
      "put-off", "expired",
    ])
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func outcome(_ word: String) -> Self { Self(value: word) }
}

/// The values are those of `PushLaneName.Provider`.
package struct PushProviderLabel: TextLabel {
  package static let (name, values) = ("provider", LabelValues.listed(["apns", "fcm", "fcm-legacy", "webpush"]))
  package let value: String
  package init(value: String) { self.value = value }
  package static func provider(_ word: String) -> Self { Self(value: word) }
}

package struct AppLabel: TextLabel {
  package static let (name, values) = ("app", LabelValues.described("the app's name in the configuration"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func app(_ name: String) -> Self { Self(value: name) }
}

/// The values are the words of `PushOutcome`.
package struct PushOutcomeLabel: TextLabel {
  package static let (name, values) = (
    "outcome", LabelValues.listed(["delivered", "dead", "refused", "temporary", "several"])
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func outcome(_ word: String) -> Self { Self(value: word) }
}

package struct PushReasonLabel: TextLabel {
  package static let (name, values) = (
    "reason", LabelValues.described("the provider's code word, or one of the relay's; empty where there is none")
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func reason(_ word: String) -> Self { Self(value: word) }
}

package struct NotificationMethodLabel: TextLabel {
  package static let (name, values) = ("method", LabelValues.described("the method's name, or `web-service`"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func method(_ name: String) -> Self { Self(value: name) }
}

package struct NotificationResultLabel: TextLabel {
  package static let (name, values) = ("result", LabelValues.described("the code of the answer, `busy` or `fault`"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func result(_ word: String) -> Self { Self(value: word) }
}

/// The values are those of `NotificationService`.
package struct NotificationServiceLabel: TextLabel {
  package static let (name, values) = ("service", LabelValues.listed(["apns", "fcm"]))
  package let value: String
  package init(value: String) { self.value = value }
  package static func service(_ word: String) -> Self { Self(value: word) }
}

package enum NotificationOutcomeLabel: String, ListedLabel {
  package static let name = "outcome"
  case delivered
  /// The provider knows the app no longer.
  case dead
  case putOff = "put-off"
  case dropped
}

package enum EventOutcomeLabel: String, ListedLabel {
  package static let name = "outcome"
  case taken
  /// It is tried again.
  case failed
  case givenUp = "given-up"
}

package enum ResourceLabel: String, ListedLabel {
  package static let name = "resource"
  case notify = "V1NotifyHandler"
}

package struct CodeStatusLabel: MetricLabel {
  package static let (name, values) = ("code", LabelValues.described("the HTTP status"))
  package let value: String
  package static func code(_ status: Int) -> Self { Self(value: String(status)) }
}

package struct PushkinLabel: TextLabel {
  package static let (name, values) = ("pushkin", LabelValues.described("the app's name in the configuration"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func pushkin(_ app: String) -> Self { Self(value: app) }
}

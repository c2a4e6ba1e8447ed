// Clients: requests, connections, accounts, keys, deliveries, attachments.

extension RelayMetric {
  package struct Requests: MetricSection {
    package static let (title, owner) = ("Requests", "RelayHTTP")

    package let answered = CounterMetric<EdgeLabel, MethodLabel, PathLabel, StatusLabel>(
      "relay_http_requests_total", "Requests that were answered.")
    package let duration = TimerMetric<EdgeLabel, MethodLabel, PathLabel>(
      "relay_http_request_duration_seconds",
      "How long requests took to answer, in seconds; without those that a peer lets wait.")
    package let refused = SingleCounter(
      "relay_http_requests_refused_total", "Requests that were refused unread: more came than could be answered.")
    package let bodiesGivenUp = SingleCounter(
      "relay_http_bodies_given_up_total",
      "Bodies that had come in part, and gave way to others: all of them together held too much.")
  }

  package struct ClientConnections: MetricSection {
    package static let (title, owner) = ("Connections of clients", "RelayHTTP/Connections")

    package let open = GaugeMetric<ConnectionStateLabel>(
      "relay_client_connections", "Connections at the clients' port, without WebSockets.")
    package let refused = CounterMetric<ConnectionRefusalLabel>(
      "relay_client_connections_refused_total", "Connections that were closed because their address had its share.")
  }

  package struct Codes: MetricSection {
    package static let (title, owner) = ("Wrong codes", "Relay/Accounts")

    package let wrong = CounterMetric<CodeLabel>(
      "relay_wrong_codes_total", "Wrong verification codes and pins, and codes that had expired or were never sent.")
    package let numbersPaused = SingleCounter(
      "relay_numbers_paused_total", "Numbers for which no code is taken for a while, after too many wrong ones.")
  }

  package struct Keys: MetricSection {
    package static let (title, owner) = ("Prekeys and restores", "Relay/Keys")

    package let limited = SingleCounter(
      "relay_prekeys_limited_total", "One-time prekeys that were not handed out, beyond the limit of their device.")
    package let heldBack = SingleCounter(
      "relay_prekeys_held_back_total",
      "One-time prekeys that were not handed out, since the store may have been put back.")
    package let storeRestores = SingleCounter(
      "relay_store_restores_total", "Times that the store was found put back to an older state.")
    package let storeWitnesses = SingleGauge(
      "relay_store_witnesses", "How many witnesses took the last epoch of the store.")
  }

  package struct Live: MetricSection {
    package static let (title, owner) = ("Live delivery", "Relay/Live")

    package let connections = GaugeMetric<SocketKindLabel>("relay_connections", "WebSockets that are open.")
    package let closed = CounterMetric<SocketEndLabel>("relay_connections_closed_total", "WebSockets that ended.")
    package let full = SingleCounter(
      "relay_connections_full_total", "Connections on which nothing more is sent, for all that was left unacknowledged."
    )
    package let keyless = SingleCounter(
      "relay_connections_without_key_total", "Connections that get no delivery, for want of a signaling key.")
    package let deliveries = SingleCounter(
      "relay_deliveries_total", "Deliveries that were written to WebSockets, repeated ones included.")
    package let unread = SingleCounter(
      "relay_deliveries_unread_total", "Deliveries by the process that had stored the message, without a read.")
    package let acknowledgements = SingleCounter(
      "relay_acknowledgements_total", "Deliveries that clients acknowledged, and that were removed.")
    package let refusals = SingleCounter(
      "relay_delivery_refusals_total", "Deliveries that clients answered with another status than success.")
    package let wakeUps = CounterMetric<WakeUpLabel>(
      "relay_wakeups_total", "Devices that something was stored for, by where they are connected.")
  }

  package struct Receipts: MetricSection {
    package static let (title, owner) = ("Receipts", "Relay/Messages")

    package let dropped = CounterMetric<ReceiptDropLabel>(
      "relay_receipts_dropped_total", "Receipts that did not reach their sender.")
  }

  package struct Attachments: MetricSection {
    package static let (title, owner) = ("Attachments", "Attachments")

    package let bytes = CounterMetric<DirectionLabel>(
      "relay_attachment_bytes_total", "Bytes of attachments that passed through this process.")
    package let refusals = CounterMetric<ProblemLabel>(
      "relay_attachment_refusals_total", "Uploads and downloads that were refused, and new attachments by quota.")
    package let removed = SingleCounter(
      "relay_attachments_removed_total", "Attachments that ended and were removed.")
    package let stuck = SingleGauge(
      "relay_attachments_stuck", "Attachments that ended, and could not be removed in the last run.")
  }
}

// MARK: Labels

package struct EdgeLabel: TextLabel {
  package static let (name, values) = ("edge", LabelValues.listed(["client", "federation", "device-notifications"]))
  package let value: String
  package init(value: String) { self.value = value }
  package static func edge(_ name: String) -> Self { Self(value: name) }
}

package struct MethodLabel: TextLabel {
  package static let (name, values) = ("method", LabelValues.described("the HTTP method; `other` of unknown ones"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func method(_ name: String) -> Self { Self(value: name) }
}

package struct PathLabel: TextLabel {
  package static let (name, values) = ("path", LabelValues.described("the route, never a request's own path"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func path(_ route: String) -> Self { Self(value: route) }
}

package struct StatusLabel: MetricLabel {
  package static let (name, values) = ("status", LabelValues.described("the HTTP status"))
  package let value: String
  package static func status(_ code: Int) -> Self { Self(value: String(code)) }
}

package enum ConnectionStateLabel: String, ListedLabel {
  package static let name = "state"
  /// For its first request.
  case waiting
  case serving
}

package enum ConnectionRefusalLabel: String, ListedLabel {
  package static let name = "reason"
  /// It was closed at once.
  case share
  /// A newer one of its address took its place.
  case displaced
}

/// The values are those of `WrongCodes.Subject`.
package struct CodeLabel: TextLabel {
  package static let (name, values) = ("of", LabelValues.listed(["registration", "linking", "pin"]))
  package let value: String
  package init(value: String) { self.value = value }
  package static func of(_ subject: String) -> Self { Self(value: subject) }
}

package enum SocketKindLabel: String, ListedLabel {
  package static let name = "kind"
  case device, provisioning
}

/// The values are those of `EndReason`, and `client` for a connection that the client or the network ended.
package struct SocketEndLabel: TextLabel {
  package static let (name, values) = (
    "reason",
    LabelValues.listed([
      "client", "displaced", "policy", "malformed", "too-much", "done", "internal", "restart", "too-old",
    ])
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func reason(_ word: String) -> Self { Self(value: word) }
}

package enum WakeUpLabel: String, ListedLabel {
  package static let name = "how"
  /// The device is connected to this process.
  case local
  /// It is connected to another process.
  case remote
  /// It is not connected.
  case absent
  /// Redis did not say.
  case unknown
  /// Too many waited: the devices read by themselves.
  case dropped
  /// Another process took the device for connected here.
  case stray
}

package enum ReceiptDropLabel: String, ListedLabel {
  package static let name = "reason"
  case mailboxFull = "mailbox-full"
  case queueFull = "queue-full"
  /// Its sender's account cannot be read, and trying again would not help.
  case store
  /// The peer did not take it.
  case peer
  /// The process stopped.
  case stopped
  /// Whether a peer's message was removed by this acknowledgement is unknown: the peer is told at most once.
  case unknown
}

package enum DirectionLabel: String, ListedLabel {
  package static let name = "direction"
  case incoming = "in"
  case outgoing = "out"
}

package struct ProblemLabel: TextLabel {
  package static let (name, values) = ("reason", LabelValues.described("a code of [errors.md](errors.md)"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func reason(_ code: String) -> Self { Self(value: code) }
}

// Peers: what they ask, what they are asked, and what waits for them.

extension RelayMetric {
  package struct PeerEdge: MetricSection {
    package static let (title, owner) = ("Requests of peers", "Federation/Server")

    package let connectionsRefused = CounterMetric<HandshakeRefusalLabel>(
      "relay_federation_connections_refused_total", "Connections of peers that were closed before their handshake.")
    package let handshakes = CounterMetric<HandshakeLabel>(
      "relay_federation_handshakes_total", "Handshakes at the listener for peers.")
    package let refusals = CounterMetric<PeerLabel, PeerRefusalLabel>(
      "relay_peer_refusals_total", "Requests of the peer that were refused.")
    package let charges = CounterMetric<PeerLabel, BudgetLabel>(
      "relay_peer_charges_total", "Units of its budgets that the peer's requests used up.")
  }

  package struct Peers: MetricSection {
    package static let (title, owner) = ("Requests to peers", "Federation/Link")

    package let available = GaugeMetric<PeerLabel>(
      "relay_peer_available", "1 while the peer answers, 0 while it is left alone.")
    package let requests = CounterMetric<PeerLabel, PeerOutcomeLabel>(
      "relay_peer_requests_total", "Requests to the peer.")
  }

  package struct Contacts: MetricSection {
    package static let (title, owner) = ("Contacts of peers", "Federation/Contacts")

    package let kept = GaugeMetric<PeerLabel>(
      "relay_peer_contacts", "Contacts of the peer that are kept, tombstones included.")
    package let pushed = GaugeMetric<PeerLabel>(
      "relay_peer_contacts_pushed",
      "1 while the peer tells what changes in its listing, 0 while it is asked every few seconds.")
    package let claimsContested = CounterMetric<PeerLabel>(
      "relay_peer_claims_contested_total", "Contacts that the peer and another one claimed at once.")
    package let claimsRefused = CounterMetric<PeerLabel>(
      "relay_peer_claims_refused_total", "Contacts of the peer that were not taken up.")
    package let lookupsPassedOver = CounterMetric<PeerLabel>(
      "relay_peer_lookups_passed_over_total", "Look-ups that did not wait for the peer.")
    package let passes = SingleCounter(
      "relay_contact_passes_total", "Contacts that passed from one peer to another.")
    package let implicitRoutes = CounterMetric<RouteLabel>(
      "relay_implicit_routes_total", "Requests that named no relay and were for a peer's contact.")
  }

  package struct Outbox: MetricSection {
    package static let (title, owner) = ("Messages that wait for peers", "Federation/Messages")

    package let messages = GaugeMetric<PeerLabel>("relay_outbox_messages", "Messages that wait for the peer.")
    package let bytes = GaugeMetric<PeerLabel>("relay_outbox_bytes", "Bytes of the messages that wait for the peer.")
    package let oldest = GaugeMetric<PeerLabel>(
      "relay_outbox_oldest_seconds", "How long the oldest message has waited for the peer, in seconds.")
    package let held = SingleCounter("relay_outbox_held_total", "Messages that were accepted into the outbox.")
    package let delivered = SingleCounter(
      "relay_outbox_delivered_total", "Messages that were handed over from the outbox.")
    package let undeliverable = CounterMetric<UndeliverableLabel>(
      "relay_outbox_undeliverable_total", "Messages of the outbox that were given up.")
    package let untold = SingleCounter(
      "relay_outbox_untold_total", "Messages that were given up, and whose sender could not be told.")
  }

  package struct Crossings: MetricSection {
    package static let (title, owner) = ("Messages and receipts between relays", "Federation/Messages")

    package let unnoted = SingleCounter(
      "relay_hand_overs_unnoted_total", "Messages to peers that could not be noted: their receipts may be refused.")
    package let unrecorded = SingleCounter(
      "relay_ledger_unrecorded_total", "Crossings that the loss ledger could not count.")
    package let receiptsRefused = CounterMetric<PeerLabel>(
      "relay_peer_receipts_refused_total", "Receipts of the peer for messages that were never handed over to it.")
    package let sourcesRefused = CounterMetric<PeerLabel>(
      "relay_peer_sources_refused_total", "Messages and receipts of the peer whose source is not its own.")
    package let sourcesContested = CounterMetric<PeerLabel>(
      "relay_peer_sources_contested_total",
      "Refused sources that the peer lists, and another peer has listed for longer.")
  }

  package struct Certificates: MetricSection {
    package static let (title, owner) = ("Certificates", "Federation/Authority")

    package let expires = GaugeMetric<HolderLabel, CertificateLabel>(
      "relay_certificate_expires_seconds", "Seconds until a certificate ends, negative once it has.")
  }
}

// MARK: Labels

package struct PeerLabel: TextLabel {
  package static let (name, values) = ("peer", LabelValues.described("the peer's name"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func peer(_ name: String) -> Self { Self(value: name) }
}

/// The values are those of `HandshakePlaces.Refusal`.
package struct HandshakeRefusalLabel: TextLabel {
  package static let (name, values) = (
    "reason", LabelValues.listed(["address-rate", "strangers-rate", "displaced"])
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func reason(_ word: String) -> Self { Self(value: word) }
}

package enum HandshakeLabel: String, ListedLabel {
  package static let name = "outcome"
  case peer
  /// It proved no peer, and may redeem an invitation.
  case stranger
  case unfinished
}

/// Codes of `Problem`, and `connections`.
package struct PeerRefusalLabel: TextLabel {
  package static let (name, values) = (
    "reason", LabelValues.listed(["budget-exceeded", "rate-limited", "scope-refused", "connections"])
  )
  package let value: String
  package init(value: String) { self.value = value }
}

/// Limits of `LimiterName`, as `PeerBudget.names` lists them.
package struct BudgetLabel: TextLabel {
  package static let (name, values) = ("budget", LabelValues.described("the limit's name: `peer-bytes`, for example"))
  package let value: String
  package init(value: String) { self.value = value }
}

/// The values are `answered`, and the words of `PeerFailure`.
package struct PeerOutcomeLabel: TextLabel {
  package static let (name, values) = (
    "outcome",
    LabelValues.listed([
      "answered", "busy", "halted", "unreachable", "private-address", "handshake", "timed-out", "unreadable",
      "cancelled",
    ])
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func outcome(_ word: String) -> Self { Self(value: word) }
}

package enum RouteLabel: String, ListedLabel {
  package static let name = "outcome"
  case routed
  /// Several peers claim the contact.
  case contested
  /// The operator does not want it for that peer.
  case off
}

/// The values are those of `UndeliverableReason`.
package struct UndeliverableLabel: TextLabel {
  package static let (name, values) = (
    "reason", LabelValues.listed(["expired", "not-found", "devices", "refused", "dropped"])
  )
  package let value: String
  package init(value: String) { self.value = value }
  package static func reason(_ word: String) -> Self { Self(value: word) }
}

package struct HolderLabel: TextLabel {
  package static let (name, values) = ("holder", LabelValues.described("`own`, or the peer's name"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func holder(_ peer: String?) -> Self { Self(value: peer ?? "own") }
}

package struct CertificateLabel: TextLabel {
  package static let (name, values) = ("kind", LabelValues.described("`leaf`, `ca`, or the listener: `client`"))
  package let value: String
  package init(value: String) { self.value = value }
  package static func kind(_ word: String) -> Self { Self(value: word) }
}

/// The HELP text of every metric: one line for who sees the name for the first time. docs/ says more.
enum MetricHelp {
  static let texts = own.merging(lanes) { $1 }

  private static let own: [String: String] = [
    // HTTP
    "relay_http_requests_total": "Requests answered, by listener, method, path and status.",
    "relay_http_request_duration_seconds": "How long requests took to answer.",
    "relay_client_connections": "Connections at the clients' port, WebSockets not counted, by state.",
    "relay_client_connections_refused_total": "Connections closed because their address had its share, by reason.",

    // Accounts and keys
    "relay_wrong_codes_total": "Wrong verification codes.",
    "relay_numbers_paused_total": "Numbers for which no code is taken for a while, after too many wrong ones.",
    "relay_prekeys_limited_total": "Requests for prekeys beyond the limit of a device.",
    "relay_prekeys_held_back_total":
      "One-time prekeys that were not handed out, since the store may have been put back.",
    "relay_store_restores_total": "Times that the store was found put back to an older state.",
    "relay_store_witnesses": "How many witnesses took the last epoch of the store.",
    "relay_storage_writable": "1 while the store takes writes, 0 while its disk is full or fails.",
    "relay_clock_lead_seconds": "How far a clock is ahead of the time last seen, negative when it is behind.",

    // Delivery
    "relay_connections": "WebSockets that are open, by kind.",
    "relay_connections_closed_total": "WebSockets that ended, by reason.",
    "relay_connections_full_total": "Connections that nothing more is sent on, for all that was left unacknowledged.",
    "relay_connections_without_key_total": "Connections that nothing can be delivered to, for want of a signaling key.",
    "relay_deliveries_total": "Deliveries written to WebSockets, repeated ones included.",
    "relay_acknowledgements_total": "Deliveries that clients acknowledged, and that were removed.",
    "relay_delivery_refusals_total": "Deliveries that clients answered with another status than success.",
    "relay_wakeups_total": "Devices that something was stored for, by where they are connected.",
    "relay_receipts_dropped_total": "Receipts that no sender gets, by reason.",

    // Directory
    "relay_directory_entries": "Contact tokens in memory.",
    "relay_directory_bytes": "Memory of the table of contact tokens.",
    "relay_directory_changes_total": "Changes read from the directory's feed.",
    "relay_directory_checks_total": "Ranges of the table that were compared with the store.",
    "relay_directory_drift_total": "Entries that differed from the store's, and were repaired.",
    "relay_directory_lag_seconds": "How long ago the feed was last read to its end.",
    "relay_directory_suspicious_total": "Look-ups that look like an enumeration of numbers, by kind.",
    "relay_oblivious_answers_total": "Elements evaluated for clients in oblivious look-ups.",
    "relay_oblivious_evaluated_total": "Contacts that got their outputs for oblivious look-ups.",
    "relay_oblivious_lag_seconds": "How long ago the feed was last read to its end for oblivious look-ups.",
    "relay_oblivious_pending": "Contacts that have no output for oblivious look-ups yet.",
    "relay_oblivious_ranges_pending": "Of 256 ranges of contacts, those whose outputs were not gone through yet.",
    "relay_coordination_available": "1 while Redis answers this process, else 0.",
    "relay_coordination_local_decisions_total": "Limits judged by this process alone, since Redis did not answer.",

    // Federation
    "relay_certificate_expires_seconds": "Seconds until a certificate ends, negative once it has, by holder and kind.",
    "relay_federation_connections_refused_total": "Peers' connections closed before their handshake, by reason.",
    "relay_federation_handshakes_total": "Handshakes at the listener for peers, by outcome.",
    "relay_peer_available": "1 while the peer answers, 0 while it is left alone.",
    "relay_peer_requests_total": "Requests to the peer, by outcome.",
    "relay_peer_refusals_total": "Requests of the peer that were refused, by reason.",
    "relay_peer_charges_total": "What the peer's requests used up of its budgets.",
    "relay_peer_contacts": "Contacts of the peer that are kept, tombstones included.",
    "relay_peer_claims_contested_total": "Contacts that the peer and another one claimed at once.",
    "relay_peer_claims_refused_total": "Contacts of the peer that were not taken up.",
    "relay_peer_lookups_passed_over_total": "Look-ups that did not wait for the peer.",
    "relay_peer_receipts_refused_total": "Receipts of the peer for what was never handed over to it.",
    "relay_peer_sources_refused_total": "Messages and receipts of the peer whose source is not its own.",
    "relay_peer_sources_contested_total": "Of these, those whose source another peer has listed for longer.",
    "relay_contact_passes_total": "Contacts that passed from one peer to another.",
    "relay_implicit_routes_total": "Requests that named no relay and were for a peer's contact, by outcome.",
    "relay_hand_overs_unnoted_total": "Messages to peers that could not be noted: their receipts may be refused.",
    "relay_ledger_unrecorded_total": "What the loss ledger could not count.",
    "relay_outbox_messages": "Messages that wait for the peer.",
    "relay_outbox_bytes": "Bytes of the messages that wait for the peer.",
    "relay_outbox_oldest_seconds": "How long the oldest message has waited for the peer.",
    "relay_outbox_held_total": "Messages accepted into the outbox.",
    "relay_outbox_delivered_total": "Messages handed over from the outbox.",
    "relay_outbox_undeliverable_total": "Messages of the outbox that were given up, by reason.",
    "relay_outbox_untold_total": "Of these, those whose sender could not be told.",

    // Attachments
    "relay_attachment_bytes_total": "Bytes of attachments that passed through this process, by direction.",
    "relay_attachment_refusals_total": "Uploads, downloads and new attachments that were refused, by reason.",
    "relay_attachments_removed_total": "Attachments that ended and were removed.",
    "relay_attachments_stuck": "Attachments that ended, and could not be removed in the last run.",

    // Push
    "relay_wakes_asked_total": "Devices that were to be woken by push, by who asked.",
    "relay_wakes_sent_total": "Pushes sent to wake devices, by provider and kind.",
    "relay_wakes_total": "Attempts to wake devices, by provider and outcome.",
    "relay_wakes_lost_total": "Devices to be woken that could not be written down; the sweep finds them.",
    "relay_wakes_waiting": "Devices that wait to be woken, by provider.",
    "relay_wakes_oldest_seconds": "How long the oldest of them has waited.",
    "relay_push_total": "Pushes by app, provider and outcome.",
    "relay_push_attempts_total": "Attempts to push, by app, provider and outcome.",
    "relay_push_seconds": "How long the provider took to answer a push.",
    "relay_push_held": "Pushes that wait for their turn, by app.",
    "relay_push_halted": "Destinations that are left alone, since their provider is in trouble, by app.",
    "relay_push_credentials_expire_seconds": "When the credentials of an app end, in seconds since 1970.",
    "relay_push_gateway_repeats_total": "Notifications of homeservers that were pushed before, and were not again.",
    "relay_notification_requests_total": "Requests for device notifications, by method and result.",
    "relay_notification_pushes_total": "Pushes of device notifications, by service and outcome.",
    "relay_notification_pushes_waiting": "Pushes of device notifications that wait, by service.",
    "relay_notification_pushes_oldest_seconds": "How long the oldest of them has waited.",
    "relay_notification_event_pushes_total": "Events sent to customers' servers, by outcome.",

    // Sygnal's, under its own names
    "sygnal_notifications_received_total": "Notifications that homeservers sent.",
    "sygnal_notifications_devices_received_total": "Devices that these were for.",
    "sygnal_per_pushkin_type_total": "Pushes by kind of app.",
    "sygnal_notify_time": "How long a notification took to answer, in seconds.",
    "sygnal_pushgateway_status_codes_total": "Answers to homeservers, by status.",
    "sygnal_requests_in_flight": "Requests of homeservers that are being answered.",
    "sygnal_inflight_request_limit_drop_total": "Notifications refused because an app had too many under way.",
    "sygnal_client_cert_expiry": "When an app's client certificate ends, in seconds since 1970.",
  ]
  /// Sygnal's metrics of each provider.
  private static let lanes: [String: String] = Dictionary(
    uniqueKeysWithValues: [("apns", "APNs"), ("gcm", "FCM"), ("webpush", "push services of browsers")].flatMap {
      word, provider in
      [
        ("sygnal_\(word)_status_codes_total", "Answers of \(provider), by status."),
        ("sygnal_\(word)_request_time", "How long requests to \(provider) took, in seconds."),
        ("sygnal_\(word)_queue_time", "How long pushes waited for a connection to \(provider), in seconds."),
        ("sygnal_active_\(word)_requests", "Requests to \(provider) that are under way."),
        ("sygnal_pending_\(word)_requests", "Pushes that wait for a connection to \(provider)."),
      ]
    })
}

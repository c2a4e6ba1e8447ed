// How a peer stands in `peers`: what is read, written at first, and changed with its policy.

import GRDB
import RelayCore

enum PeerRecord {}

// MARK: - PostgreSQL

extension PeerRecord {
  /// As `Peer.init(row:)` reads them.
  static let postgres: PostgresQuery = """
    name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode, next_ca_certificate,
      (
        SELECT coalesce(string_agg(encode(serial, 'hex'), ' ' ORDER BY place), '')
        FROM unnest(revoked_serials) WITH ORDINALITY AS r (serial, place)
      ), statement_sequence, fault, fault_since, implicit,
      (SELECT coalesce(string_agg(mark::text, ' ' ORDER BY place), '') FROM attachment_marks WHERE peer = name),
      suspension_reason, suspended_until
    """

  /// To be followed by a `FROM` or a conflict clause, or by nothing.
  static func insert(_ peer: Peer) -> PostgresQuery {
    """
    INSERT INTO peers AS known (name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode,
      next_ca_certificate, revoked_serials, statement_sequence, fault, fault_since, implicit)
    SELECT \(peer.name), \(peer.url), \(peer.caCertificate), \(peer.state.rawValue), \(peer.scopes.column),
      \(peer.added), \(peer.policy.holdsMessages), \(peer.policy.contacts.rawValue),
      \(peer.trust.nextCACertificate), \(each: peer.trust.revokedSerials), \(peer.trust.sequence),
      \(peer.condition.fault?.rawValue), \(peer.condition.faultSince), \(peer.policy.routesImplicitly)
    """
  }

  /// Assignments.
  static func postgresChange(_ change: PeerPolicyChange) -> PostgresQuery {
    """
    holds_messages = coalesce(\(change.holdsMessages), holds_messages),
      contacts_mode = coalesce(\(change.contacts?.rawValue), contacts_mode),
      implicit = coalesce(\(change.routesImplicitly), implicit)
    """
  }
}

extension Peer {
  init(row: inout PostgresRow) throws(StoreError) {
    let (name, url, certificate) = (try row.relayName(), try row.text(), try row.bytes())
    let state = try row.required(Peer.State(rawValue: row.text()))
    let (scopes, added) = (Set<Peer.Scope>(column: try row.text()), try row.timestamp())
    var policy = PeerPolicy(holdsMessages: try row.boolean(), contacts: PeerPolicy.Contacts(column: try row.text()))
    let trust = PeerTrust(
      nextCACertificate: row.optionalBytes(), revokedSerials: try row.required(SerialsText.decode(row.text())),
      sequence: try row.bigint())
    let condition = PeerCondition(fault: row.optionalText(), since: try row.optionalTimestamp())
    policy.routesImplicitly = try row.boolean()
    self.init(
      name: name, url: url, caCertificate: certificate, state: state, scopes: scopes, added: added, policy: policy,
      trust: trust, condition: condition, attachmentMarks: [AttachmentMark](column: try row.text()),
      suspension: PeerSuspension(reason: row.optionalText(), until: try row.optionalTimestamp()))
  }
}

// MARK: - SQLite

extension PeerRecord {
  /// As `Peer.init(row:)` reads them.
  static let embedded: SQL = """
    name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode, next_ca_certificate,
      revoked_serials, statement_sequence, fault, fault_since, implicit,
      (SELECT coalesce(group_concat(mark, ' '), '')
        FROM (SELECT mark FROM attachment_marks WHERE peer = name ORDER BY place)),
      suspension_reason, suspended_until
    """

  static func insert(_ peer: Peer) -> SQL {
    """
    INSERT INTO peers (name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode,
      next_ca_certificate, revoked_serials, statement_sequence, fault, fault_since, implicit)
    VALUES (\(peer.name), \(peer.url), \(peer.caCertificate), \(peer.state.rawValue), \(peer.scopes.column),
      \(peer.added), \(peer.policy.holdsMessages), \(peer.policy.contacts.rawValue),
      \(peer.trust.nextCACertificate), \(SerialsText.encode(peer.trust.revokedSerials)), \(peer.trust.sequence),
      \(peer.condition.fault?.rawValue), \(peer.condition.faultSince), \(peer.policy.routesImplicitly))
    """
  }

  /// Assignments.
  static func embeddedChange(_ change: PeerPolicyChange) -> SQL {
    """
    holds_messages = coalesce(\(change.holdsMessages), holds_messages),
      contacts_mode = coalesce(\(change.contacts?.rawValue), contacts_mode),
      implicit = coalesce(\(change.routesImplicitly), implicit)
    """
  }
}

extension Peer {
  init(row: Fields) throws(StoreError) {
    try self.init(
      name: row.relay(0), url: row.text(1), caCertificate: row.bytes(2),
      state: Fields.valid(Peer.State(rawValue: row.text(3))), scopes: Set(column: row.text(4)), added: row.time(5),
      policy: PeerPolicy(
        holdsMessages: row.flag(6), contacts: PeerPolicy.Contacts(column: row.text(7)), routesImplicitly: row.flag(13)),
      trust: PeerTrust(
        nextCACertificate: row.optionalBytes(8), revokedSerials: Fields.valid(SerialsText.decode(row.text(9))),
        sequence: row.integer(10)),
      condition: PeerCondition(fault: row.optionalText(11), since: row.optionalTime(12)),
      attachmentMarks: [AttachmentMark](column: row.text(14)),
      suspension: PeerSuspension(reason: row.optionalText(15), until: row.optionalTime(16)))
  }
}

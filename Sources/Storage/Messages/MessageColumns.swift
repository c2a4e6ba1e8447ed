// How an envelope stands in `messages`, written and read in one order.

import Foundation
import GRDB
import RelayCore

/// The columns of an envelope, but for its mailbox and its fingerprint.
enum MessageColumns {
  static let postgres: StaticString = "type, source, source_device, relay, sent, message, content"
  static let embedded = "\(postgres)"
}

// MARK: - PostgreSQL

extension PostgresQuery.Interpolation {
  /// The names of `MessageColumns`.
  mutating func appendInterpolation(_ columns: MessageColumns.Type) { appendLiteral(columns.postgres) }

  /// The values of `MessageColumns`, an array for each.
  mutating func appendInterpolation(columnsOf envelopes: [Envelope]) {
    appendInterpolation(each: envelopes.lazy.map(\.type.rawValue))
    appendLiteral(", ")
    appendInterpolation(each: envelopes.lazy.map(\.source.account))
    appendLiteral(", ")
    appendInterpolation(each: envelopes.lazy.map(\.source.device))
    appendLiteral(", ")
    appendInterpolation(each: envelopes.lazy.map(\.relay))
    appendLiteral(", ")
    appendInterpolation(each: envelopes.lazy.map(\.timestamp))
    appendLiteral(", ")
    appendInterpolation(each: envelopes.lazy.map(\.message))
    appendLiteral(", ")
    appendInterpolation(each: envelopes.lazy.map(\.content))
  }
}

extension QueuedEnvelope {
  /// From `sequence`, `MessageColumns` and `fingerprint`.
  init(row: inout PostgresRow, in mailbox: DeviceAddress) throws(StoreError) {
    let sequence = try row.bigint()
    let type = try row.required(MessageType(rawValue: row.smallint()))
    self.init(
      sequence: sequence,
      envelope: Envelope(
        destination: mailbox, type: type, source: DeviceAddress(try row.account(), try row.device()),
        relay: try row.optionalRelayName(), timestamp: try row.timestamp(), message: row.optionalBytes(),
        content: row.optionalBytes(), fingerprint: try row.fingerprint()))
  }
}

// MARK: - SQLite

extension Envelope {
  /// The values of `MessageColumns`.
  var embeddedColumns: [(any DatabaseValueConvertible)?] {
    [
      type.rawValue, source.account.key, source.device.value, relay?.text, timestamp.millis, message.map { Data($0) },
      content.map { Data($0) },
    ]
  }
}

extension QueuedEnvelope {
  static let columns: SQL = "sequence, \(sql: MessageColumns.embedded), fingerprint"

  /// From `columns`.
  init(row: Fields, in mailbox: DeviceAddress) throws(StoreError) {
    let type = try MessageType(rawValue: Int16(truncatingIfNeeded: row.integer(1)))
    self.init(
      sequence: try row.integer(0),
      envelope: try Envelope(
        destination: mailbox, type: Fields.valid(type), source: DeviceAddress(row.number(2), row.device(3)),
        relay: row.optionalRelay(4), timestamp: row.time(5), message: row.optionalBytes(6),
        content: row.optionalBytes(7), fingerprint: Fields.valid(Fingerprint(bytes: row.bytes(8)))))
  }
}

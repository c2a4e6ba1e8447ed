// How a device stands in `devices`, alike in both stores.

import GRDB
import RelayCore

extension PushIDKind {
  var column: StaticString {
    switch self {
    case .fcm: "fcm_id"
    case .apns: "apns_id"
    case .voip: "voip_id"
    case .webPush: "web_push_id"
    }
  }
}

/// The columns of a device behind its key, in the order in which both stores write and read them.
enum DeviceColumns {
  static let all: [StaticString] =
    ["password_salt", "password_hash", "signaling_key", "registration_id", "fetches_messages"]
    + PushIDKind.allCases.map(\.column)
    + ["push_registered", "name", "user_agent", "has_signed_prekey", "last_seen", "created"]
}

// MARK: - PostgreSQL

extension DeviceColumns {
  /// The values. - Parameter signalingKey: sealed.
  static func values(of device: Device, signalingKey: [UInt8]) -> PostgresQuery {
    """
    \(device.password.salt), \(device.password.hash), \(signalingKey), \(device.registrationID),
      \(device.fetchesMessages), \(device.pushIDs), \(device.pushRegistered), \(opaque: device.name),
      \(opaque: device.userAgent), \(device.hasSignedPreKey), \(device.lastSeen), \(device.created)
    """
  }
}

extension PostgresQuery.Interpolation {
  /// The names of `DeviceColumns`.
  mutating func appendInterpolation(_ columns: DeviceColumns.Type) {
    for (index, column) in columns.all.enumerated() {
      if index > 0 { appendLiteral(", ") }
      appendLiteral(column)
    }
  }

  /// The values of the ids' columns.
  mutating func appendInterpolation(_ ids: PushIDs) {
    for (index, kind) in PushIDKind.allCases.enumerated() {
      if index > 0 { appendLiteral(", ") }
      appendInterpolation(opaque: ids[kind]?.value)
    }
  }

  /// Assignments, each with a comma behind it.
  mutating func appendInterpolation(pushIDsOf change: DeviceChange) {
    for kind in PushIDKind.allCases {
      appendLiteral(kind.column)
      appendLiteral(" = CASE WHEN ")
      appendInterpolation(change[kind].isSet)
      appendLiteral(" THEN ")
      appendInterpolation(opaque: change[kind].new??.value)
      appendLiteral(" ELSE ")
      appendLiteral(kind.column)
      appendLiteral(" END, ")
    }
  }

  /// The rule of `PushIDs.provider`, for a row of `devices`: the provider's value, or NULL.
  mutating func appendInterpolation(_ rule: WakeProvider.Type) {
    appendLiteral("CASE")
    for provider in rule.allCases {
      appendLiteral(" WHEN ")
      appendLiteral(provider.idKind.column)
      appendLiteral(" IS NOT NULL THEN ")
      appendInterpolation(provider.rawValue)
    }
    appendLiteral(" END")
  }

  /// The rule of `Device.isReachable`, for a row of `devices`.
  mutating func appendInterpolation(isReachable: Void) {
    appendLiteral("(fetches_messages")
    for provider in WakeProvider.allCases {
      appendLiteral(" OR ")
      appendLiteral(provider.idKind.column)
      appendLiteral(" IS NOT NULL")
    }
    appendLiteral(")")
  }
}

// MARK: - SQLite

extension DeviceColumns {
  /// The values. - Parameter signalingKey: sealed.
  static func values(of device: Device, signalingKey: [UInt8]) -> SQL {
    """
    \(device.password.salt), \(device.password.hash), \(signalingKey), \(device.registrationID),
      \(device.fetchesMessages), \(device.pushIDs), \(device.pushRegistered), \(opaque: device.name),
      \(opaque: device.userAgent), \(device.hasSignedPreKey), \(device.lastSeen), \(device.created)
    """
  }
}

extension SQLInterpolation {
  /// The names of `DeviceColumns`.
  mutating func appendInterpolation(_ columns: DeviceColumns.Type) {
    appendInterpolation(sql: columns.all.map(\.description).joined(separator: ", "))
  }

  /// A column's name.
  mutating func appendInterpolation(_ kind: PushIDKind) { appendInterpolation(sql: kind.column.description) }

  /// The values of the ids' columns.
  mutating func appendInterpolation(_ ids: PushIDs) {
    for (index, kind) in PushIDKind.allCases.enumerated() {
      if index > 0 { appendLiteral(", ") }
      appendInterpolation(opaque: ids[kind]?.value)
    }
  }

  /// Assignments, each with a comma behind it.
  mutating func appendInterpolation(pushIDsOf change: DeviceChange) {
    for kind in PushIDKind.allCases {
      appendInterpolation(kind)
      appendLiteral(" = iif(")
      appendInterpolation(change[kind].isSet)
      appendLiteral(", ")
      appendInterpolation(opaque: change[kind].new??.value)
      appendLiteral(", ")
      appendInterpolation(kind)
      appendLiteral("), ")
    }
  }

  /// The rule of `PushIDs.provider`, for a row of `devices`: the provider's value, or NULL.
  mutating func appendInterpolation(_ rule: WakeProvider.Type) {
    appendLiteral("CASE")
    for provider in rule.allCases {
      appendInterpolation(sql: " WHEN \(provider.idKind.column) IS NOT NULL THEN \(provider.rawValue)")
    }
    appendLiteral(" END")
  }

  /// The rule of `Device.isReachable`, for a row of `devices`.
  mutating func appendInterpolation(isReachable: Void) {
    let ids = WakeProvider.allCases.map { " OR \($0.idKind.column) IS NOT NULL" }.joined()
    appendInterpolation(sql: "(fetches_messages\(ids))")
  }
}

// Between SQLite's values and ours. Everything read from the file is checked: a damaged store is an error, not a trap.

import Foundation
import GRDB
import RelayCore

extension Database {
  /// Runs a statement that GRDB keeps prepared. Interpolated values are bound, never pasted.
  func run(_ literal: SQL) throws {
    let (sql, arguments) = try literal.build(self)
    try cachedStatement(sql: sql).execute(arguments: arguments)
  }

  func rows(_ literal: SQL) throws -> [Fields] {
    let (sql, arguments) = try literal.build(self)
    return try Row.fetchAll(cachedStatement(sql: sql), arguments: arguments).map(Fields.init)
  }

  /// The first row, or nil.
  func row(_ literal: SQL) throws -> Fields? {
    let (sql, arguments) = try literal.build(self)
    return try Row.fetchOne(cachedStatement(sql: sql), arguments: arguments).map(Fields.init)
  }
}

/// The columns of one row, by their place in the statement.
struct Fields {
  let row: Row

  func integer(_ index: Int) throws(StoreError) -> Int64 { try required(index) }
  func flag(_ index: Int) throws(StoreError) -> Bool { try required(index) }
  func text(_ index: Int) throws(StoreError) -> String { try required(index) }
  func time(_ index: Int) throws(StoreError) -> Timestamp { Timestamp(millis: try required(index)) }
  func bytes(_ index: Int) throws(StoreError) -> [UInt8] { [UInt8](try required(index) as Data) }
  func optionalInteger(_ index: Int) -> Int64? { Int64.fromDatabaseValue(row[index]) }
  func optionalTime(_ index: Int) -> Timestamp? { optionalInteger(index).map(Timestamp.init(millis:)) }
  func optionalText(_ index: Int) -> String? { String.fromDatabaseValue(row[index]) }
  /// A text that a client made up: see the schema.
  func opaque(_ index: Int) throws(StoreError) -> String {
    String(decoding: try required(index) as Data, as: UTF8.self)
  }
  func optionalOpaque(_ index: Int) -> String? {
    Data.fromDatabaseValue(row[index]).map { String(decoding: $0, as: UTF8.self) }
  }
  func optionalBytes(_ index: Int) -> [UInt8]? { Data.fromDatabaseValue(row[index]).map { [UInt8]($0) } }

  func number(_ index: Int) throws(StoreError) -> AccountNumber {
    try Self.valid(AccountNumber(digits: integer(index)))
  }
  func device(_ index: Int) throws(StoreError) -> DeviceID { try Self.valid(DeviceID(integer(index))) }
  func relay(_ index: Int) throws(StoreError) -> RelayName { try Self.valid(RelayName(text(index))) }
  func optionalRelay(_ index: Int) throws(StoreError) -> RelayName? {
    guard let text = optionalText(index) else { return nil }
    return try Self.valid(RelayName(text))
  }
  /// `TokenSealer` opens it.
  func token(_ index: Int) throws(StoreError) -> StoredToken { StoredToken(try bytes(index)) }

  /// Unwraps what a value that we stored ourselves must decode to.
  static func valid<T>(_ value: T?) throws(StoreError) -> T {
    guard let value else { throw .corrupted(reason: "a column holds what no relay writes") }
    return value
  }

  private func required<T: DatabaseValueConvertible>(_ index: Int) throws(StoreError) -> T {
    try Self.valid(T.fromDatabaseValue(row[index]))
  }
}

extension AccountNumber {
  /// How the number stands in every table.
  var key: Int64 { Int64(digits) }
}

extension String {
  /// How a text that a client made up stands in every table.
  var opaque: Data { Data(utf8) }
}

extension StoredToken {
  var data: Data { Data(bytes) }
}

// The result of a statement.

import CLibPQ
import RelayCore

/// The owner of a `PGresult`, in binary format.
///
/// Immutable once libpq has handed it out, so any thread may read it and drop it: decoding stays off the reactor.
final class PostgresResult: @unchecked Sendable {
  private let handle: OpaquePointer

  init(owning handle: OpaquePointer) { self.handle = handle }
  deinit { PQclear(handle) }

  var rowCount: Int { Int(PQntuples(handle)) }
  var rows: Range<Int> { 0..<rowCount }

  /// Rows that an INSERT, UPDATE or DELETE touched; 0 for other commands.
  var affectedRows: Int {
    guard let text = PQcmdTuples(handle) else { return 0 }
    return Int(String(cString: text)) ?? 0
  }

  /// Reads the columns of `row` from left to right.
  func cursor(row: Int) -> PostgresRow { PostgresRow(result: self, row: Int32(row)) }

  /// Decodes all rows.
  func all<Value>(
    _ decode: (inout PostgresRow) throws(StoreError) -> Value
  ) throws(StoreError) -> [Value] {
    var values: [Value] = []
    values.reserveCapacity(rowCount)
    for index in rows {
      var row = cursor(row: index)
      values.append(try decode(&row))
    }
    return values
  }

  /// Decodes the first row.
  /// - Returns: nil where there is none.
  func first<Value>(
    _ decode: (inout PostgresRow) throws(StoreError) -> Value
  ) throws(StoreError) -> Value? {
    guard rowCount > 0 else { return nil }
    var row = cursor(row: 0)
    return try decode(&row)
  }

  fileprivate func bytes(row: Int32, column: Int32) -> UnsafeRawBufferPointer? {
    guard column < PQnfields(handle), PQgetisnull(handle, row, column) == 0 else { return nil }
    return UnsafeRawBufferPointer(start: PQgetvalue(handle, row, column), count: Int(PQgetlength(handle, row, column)))
  }
}

/// One row, read column by column in the order of the SELECT list.
///
/// Every reader throws `.corrupted` when the column is NULL or has another shape than the code expects.
struct PostgresRow {
  fileprivate let result: PostgresResult
  fileprivate let row: Int32
  private var column: Int32 = 0

  fileprivate init(result: PostgresResult, row: Int32) {
    self.result = result
    self.row = row
  }

  /// Whether the next column is NULL.
  var isNull: Bool { result.bytes(row: row, column: column) == nil }

  mutating func bigint() throws(StoreError) -> Int64 { try number() }
  mutating func optionalBigint() throws(StoreError) -> Int64? {
    guard isNull else { return try bigint() }
    column += 1
    return nil
  }
  mutating func integer() throws(StoreError) -> Int32 { try number() }
  mutating func optionalInteger() throws(StoreError) -> Int32? {
    guard isNull else { return try integer() }
    column += 1
    return nil
  }
  /// An array of one dimension, or an empty one, without NULLs.
  mutating func bigints() throws(StoreError) -> [Int64] {
    let bytes = try required(next())
    // Dimensions, whether there are NULLs, the type of the elements; for each dimension its length and first index.
    let (head, elementHead) = (bytes.count == 12 ? 12 : 20, 4)
    guard bytes.count >= head, (bytes.count - head).isMultiple(of: elementHead + 8) else { return try required(nil) }
    return stride(from: head, to: bytes.count, by: elementHead + 8).map {
      Int64(bigEndian: bytes.loadUnaligned(fromByteOffset: $0 + elementHead, as: Int64.self))
    }
  }
  /// Days since 2000-01-01.
  mutating func date() throws(StoreError) -> Int32 { try number() }
  mutating func smallint() throws(StoreError) -> Int16 { try number() }
  mutating func boolean() throws(StoreError) -> Bool { try number() as UInt8 != 0 }

  mutating func bytes() throws(StoreError) -> [UInt8] { try required(optionalBytes()) }
  mutating func optionalBytes() -> [UInt8]? { next().map { Array($0) } }
  mutating func text() throws(StoreError) -> String { try required(optionalText()) }
  mutating func optionalText() -> String? { next().map { String(decoding: $0, as: UTF8.self) } }

  /// A client's text, see `AccountSchema`.
  mutating func opaque() throws(StoreError) -> String { try required(optionalOpaque()) }
  mutating func optionalOpaque() -> String? { optionalText() }

  mutating func timestamp() throws(StoreError) -> Timestamp { Timestamp(millis: try bigint()) }
  mutating func optionalTimestamp() throws(StoreError) -> Timestamp? {
    try optionalBigint().map { Timestamp(millis: $0) }
  }
  /// Two columns, salt and hash; nil when the first is NULL.
  mutating func optionalPassword() throws(StoreError) -> PasswordHash? {
    guard let salt = optionalBytes() else {
      column += 1
      return nil
    }
    return PasswordHash(salt: salt, hash: try bytes())
  }
  mutating func account() throws(StoreError) -> AccountNumber { try required(AccountNumber(digits: bigint())) }
  mutating func device() throws(StoreError) -> DeviceID { try required(DeviceID(Int64(integer()))) }
  /// `TokenSealer` opens it.
  mutating func token() throws(StoreError) -> StoredToken { StoredToken(try bytes()) }
  mutating func fingerprint() throws(StoreError) -> Fingerprint { try required(Fingerprint(bytes: bytes())) }
  mutating func relayName() throws(StoreError) -> RelayName { try required(RelayName(text())) }
  mutating func optionalRelayName() throws(StoreError) -> RelayName? {
    guard let text = optionalText() else { return nil }
    return try required(RelayName(text))
  }

  /// - Throws: `.corrupted` for nil: the value breaks a rule that the schema or the writer keeps.
  func required<Value>(_ value: Value?) throws(StoreError) -> Value {
    guard let value else { throw .corrupted(reason: "unexpected value in column \(column) of a result") }
    return value
  }

  private mutating func number<Value: FixedWidthInteger>() throws(StoreError) -> Value {
    let bytes = next()
    guard let bytes, bytes.count == MemoryLayout<Value>.size else { return try required(nil) }
    return Value(bigEndian: bytes.loadUnaligned(as: Value.self))
  }

  private mutating func next() -> UnsafeRawBufferPointer? {
    defer { column += 1 }
    return result.bytes(row: row, column: column)
  }
}

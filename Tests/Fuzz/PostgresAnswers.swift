import CLibPQ
import Glibc

@testable import RelayCore
@testable import Storage

/// Rows as PostgreSQL returns them, read as every kind of column; and the copy of the directory.
func fuzzPostgres(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  switch selector % 8 {
  case 0: fuzzCopy(body, .plain)
  case 1:
    guard let sealer = try? TokenSealer(key: SecretBytes([UInt8](repeating: 7, count: TokenSealer.keyBytes))) else {
      return
    }
    fuzzCopy(body, sealer)
  case 2: fuzzSecrets(body)
  default: fuzzRow(body, selector / 8 % readerCount)
  }
}

private let readerCount = 8

/// The columns of a row as one of several statements has them.
private func read(_ row: inout PostgresRow, as reader: Int) throws(StoreError) {
  guard let number = AccountNumber(digits: 15_550_000_001) else { return }
  switch reader {
  case 0: _ = try QueuedEnvelope(row: &row, in: DeviceAddress(number, .master))
  case 1: _ = try ListedAccount(row: &row, .plain)
  case 2: _ = (try row.bigint(), try row.optionalBigint(), try row.integer(), try row.optionalInteger())
  case 3: _ = (try row.date(), try row.smallint(), try row.boolean(), try row.bytes())
  case 4: _ = (try row.text(), try row.opaque(), try row.timestamp(), try row.optionalTimestamp())
  case 5: _ = (try row.optionalPassword(), try row.account(), try row.device())
  case 6: _ = (try row.token(), try row.fingerprint(), try row.relayName(), try row.optionalRelayName())
  default:
    let (bundle, coversMasterOnly, accepted) = (try row.bytes(), try row.boolean(), try row.timestamp())
    let submission = OutboxRow.submission(
      bundle: bundle, to: number, coversMasterOnly: coversMasterOnly, accepted: accepted)
    demand(submission.messages.count <= WireLimits.messagesPerBundleMax, "a submission is bounded")
  }
}

/// One row: of each column its length in a byte, 255 for NULL, and its bytes.
private func fuzzRow(_ body: [UInt8], _ reader: Int) {
  guard let handle = PQmakeEmptyPGresult(nil, PGRES_TUPLES_OK) else { return }
  let result = PostgresResult(owning: handle)
  var rest = body[...]
  var columns: [[UInt8]?] = []
  while columns.count < 12, let length = rest.popFirst() {
    guard length != 255 else {
      columns.append(nil)
      continue
    }
    columns.append(Array(rest.prefix(Int(length))))
    rest = rest.dropFirst(Int(length))
  }
  guard !columns.isEmpty, describe(columns.count, handle) else { return }
  for (index, column) in columns.enumerated() {
    var value = (column ?? []).map { CChar(bitPattern: $0) } + [0]
    guard PQsetvalue(handle, 0, Int32(index), &value, column.map { Int32($0.count) } ?? -1) == 1 else { return }
  }
  demand(result.rowCount == 1, "there is one row")
  var row = result.cursor(row: 0)
  do throws(StoreError) {
    try read(&row, as: reader)
  } catch {
    guard case .corrupted = error else { return demand(false, "what is no row is damage") }
  }
}

private func describe(_ count: Int, _ handle: OpaquePointer) -> Bool {
  guard let name = strdup("c") else { return false }
  defer { free(name) }
  var attributes = (0..<count).map { _ in
    PGresAttDesc(name: name, tableid: 0, columnid: 0, format: 1, typid: 17, typlen: -1, atttypmod: -1)
  }
  return PQsetResultAttrs(handle, Int32(count), &attributes) == 1
}

/// The first byte says after how many bytes the second piece begins.
private func fuzzCopy(_ body: [UInt8], _ tokens: TokenSealer) {
  var parser = DirectoryCopyParser(tokens)
  let (cut, copy) = body.split
  for piece in [copy.prefix(cut), copy.dropFirst(cut)] {
    do throws(StoreError) {
      var failure: StoreError?
      piece.withUnsafeBytes { bytes in
        do throws(StoreError) { try parser.read(bytes) } catch { failure = error }
      }
      if let failure { throw failure }
      let count = parser.count
      let entries = try parser.takeEntries()
      demand(entries.count == count, "each row becomes an entry")
    } catch {
      return
    }
  }
}

private func fuzzSecrets(_ body: [UInt8]) {
  let sealer = SecretSealer(current: SecretBytes([UInt8](repeating: 1, count: 32)))
  guard let number = AccountNumber(digits: 15_550_000_001) else { return }
  _ = try? sealer.open(body, of: number)
  _ = try? sealer.open(body, named: "name")
  _ = try? TokenSealer.plain.open(StoredToken(body))
  guard let sealed = try? sealer.seal(Secret(body.text), of: number) else { return }
  demand((try? sealer.open(sealed, of: number))?.value == body.text, "a secret comes back")
}

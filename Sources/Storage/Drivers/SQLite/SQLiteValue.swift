// How values of ours stand in SQLite.

import Foundation
import GRDB
import RelayCore

extension SQLInterpolation {
  /// NULL is bound as well. GRDB would write it into the text: one more prepared statement for each combination.
  mutating func appendInterpolation<Value: DatabaseValueConvertible>(_ value: Value?) {
    appendInterpolation(sql: "?", arguments: [value])
  }

  /// A BLOB. GRDB takes a sequence for a list of values, one for each byte.
  mutating func appendInterpolation(_ bytes: [UInt8]) { appendInterpolation(Data(bytes)) }
  mutating func appendInterpolation(_ bytes: [UInt8]?) { appendInterpolation(bytes.map { Data($0) }) }

  /// A text that a client made up (`AccountSchema`).
  mutating func appendInterpolation(opaque text: String?) { appendInterpolation(text?.opaque) }

  mutating func appendInterpolation(_ account: AccountNumber) { appendInterpolation(account.key) }
  mutating func appendInterpolation(_ device: DeviceID) { appendInterpolation(device.value) }
  mutating func appendInterpolation(_ relay: RelayName) { appendInterpolation(relay.text) }
  /// Milliseconds since 1970.
  mutating func appendInterpolation(_ time: Timestamp) { appendInterpolation(time.millis) }
  mutating func appendInterpolation(_ time: Timestamp?) { appendInterpolation(time?.millis) }
  /// As `TokenSealer` sealed it.
  mutating func appendInterpolation(_ token: StoredToken) { appendInterpolation(token.bytes) }
  /// As `PendingCodes` made it.
  mutating func appendInterpolation(_ code: StoredCode) { appendInterpolation(code.bytes) }
}

/// A failure of a store. Never carries message bytes, numbers or bound parameters.
package enum StoreError: Error, Sendable, CustomStringConvertible {
  /// The store cannot be reached, or refused for a reason that passes. Nothing was stored.
  case unavailable(reason: String)
  /// The store answered what cannot be: a defect of ours or a damaged store.
  case corrupted(reason: String)

  package var description: String {
    switch self {
    case .unavailable(let reason): "store unavailable: \(reason)"
    case .corrupted(let reason): "store corrupted: \(reason)"
    }
  }
}

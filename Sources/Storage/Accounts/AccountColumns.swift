import RelayCore

extension Timestamp {
  /// As number tokens bear it (reference 2.6).
  var second: Int64 { millis / 1000 }
}

extension StoredProof {
  /// The second of the number token; 0 for another proof.
  var second: Int64 {
    switch self {
    case .numberToken(let second): second
    case .code, .trusted: 0
    }
  }
}

/// `CASE WHEN \(patch.isSet) THEN \(patch.new) ELSE column END`: the text of a statement is the same for each change.
extension DeviceChange.Patch {
  var isSet: Bool { self != .keep }

  /// nil where the column is kept.
  var new: Value? {
    switch self {
    case .keep: nil
    case .set(let value): value
    }
  }
}

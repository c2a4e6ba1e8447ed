import RelayCore

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

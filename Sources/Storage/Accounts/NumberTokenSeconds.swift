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

import RelayCore

/// Why the feed could not be followed just now. Never names a token.
enum FollowFailure: Error, CustomStringConvertible {
  case store(StoreError)
  /// The feed does not go back to our place, or is another one: the directory is read anew.
  case forgotten
  /// There is not the memory that the table would need, in bytes.
  case memory(Int)
  /// Another process has gone on with the outputs of contacts: what this one knows of them is old.
  case overtaken

  var description: String {
    switch self {
    case .store(let error): "\(error)"
    case .forgotten: "the feed of changes does not go back so far"
    case .overtaken: "another process has gone on with it"
    case .memory(let bytes): "no memory for a table of \(bytes) bytes"
    }
  }

  /// Calls the store, with its failure as one of ours.
  static func storing<Value>(_ call: () async throws(StoreError) -> Value) async throws(FollowFailure) -> Value {
    do throws(StoreError) {
      return try await call()
    } catch {
      throw .store(error)
    }
  }

  /// Writes to a table, with its failure as one of ours.
  static func writing<Value>(
    _ write: () throws(TokenTable.OutOfMemory) -> Value
  ) throws(FollowFailure) -> Value {
    do throws(TokenTable.OutOfMemory) {
      return try write()
    } catch {
      throw .memory(error.bytes)
    }
  }
}

/// Failures in a row: when to try again, and what is worth a line.
struct FailureRow: Sendable {
  private var count = 0

  private static let pauseMin = 0.25
  private static let pauseMax = 2.0

  /// - Parameter random: in 0..<1.
  /// - Returns: how long to wait before the next try, and whether this is the first failure of a row.
  mutating func failed(random: Double) -> (pause: Duration, isFirst: Bool) {
    count += 1
    let pause = min(Self.pauseMin * Double(1 << min(count - 1, 10)), Self.pauseMax)
    // Between half and the whole: processes that failed together do not come back together.
    return (.seconds(pause * (0.5 + random / 2)), count == 1)
  }

  /// - Returns: whether this ends a row.
  mutating func succeeded() -> Bool {
    defer { count = 0 }
    return count > 0
  }
}

import RelayCore

/// Why a peer's listing could not be read, or no further.
enum SyncFailure: Error, CustomStringConvertible {
  case peer(PeerFailure)
  case refused(status: Int)
  case malformed
  /// More entries, or pages, than are read; what was read is kept, nothing is removed.
  case endless
  case store(StoreError)
  /// Another process has its turn, or the peer is not followed any more.
  case displaced

  var description: String {
    switch self {
    case .peer(let failure): "\(failure)"
    case .refused(status: 403):
      "it answered 403: its operator does not let this relay read its listing; if it lets it ask,"
        + " `relay peer set NAME --contacts query` does, and `--contacts none` does without"
    case .refused(let status): "it answered \(status)"
    case .malformed: "its answer is not what docs/federation-wire.md describes"
    case .endless: "it lists more entries than are read"
    case .store(let error): "\(error)"
    case .displaced: "another process reads it"
    }
  }

  /// Calls the store.
  static func storing<T: Sendable>(_ call: () async throws(StoreError) -> T) async throws(SyncFailure) -> T {
    do throws(StoreError) {
      return try await call()
    } catch {
      throw .store(error)
    }
  }

  /// Whether it is news: what the transport has said of a peer that is away, or what is nobody's fault, is not.
  var isWorthALine: Bool {
    switch self {
    case .peer(.halted), .peer(.cancelled), .displaced: false
    default: true
    }
  }
}

import RelayCore

/// How far a peer's listing is known, as the store remembers it with the peer's last complete pass.
enum ListingMark: Sendable, Equatable {
  /// The listing was read whole when it was in this state: an entity tag, or `count N` of a peer that sends none.
  case state(String)
  /// Everything up to `cursor` is known; the listing was last read whole in that hour since 1970.
  case feed(FeedCursor, readHour: Int64)

  /// `feed HOUR CURSOR`, or the state as it is.
  var text: String {
    switch self {
    case .state(let text): text
    case .feed(let cursor, let hour): "\(Self.feedWord) \(hour) \(cursor.text)"
    }
  }

  init(text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false)
    if words.count == 3, words[0] == Self.feedWord, let hour = Int64(words[1]), let cursor = FeedCursor(words[2]) {
      self = .feed(cursor, readHour: hour)
    } else {
      self = .state(text)
    }
  }

  /// With another hour of the last whole reading; where the mark has none, as it is.
  func mapReadHour(_ hour: (Int64) -> Int64) -> ListingMark {
    guard case .feed(let cursor, let readHour) = self else { return self }
    return .feed(cursor, readHour: hour(readHour))
  }

  /// For `If-None-Match`; nil where the peer's mark is no entity tag.
  var entityTag: String? {
    guard case .state(let text) = self, text.hasPrefix("\"") else { return nil }
    return text
  }

  private static let feedWord = "feed"
}

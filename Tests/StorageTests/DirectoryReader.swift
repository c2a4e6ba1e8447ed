import Crypto
import Foundation
import RelayCore
import Testing

/// A reader of the directory as each process is one: it reads the whole, and then follows the feed.
struct DirectoryReader {
  private let storage: any Storage
  private(set) var place: DirectoryPlace
  private(set) var entries: [ContactToken: DirectoryEntry] = [:]
  /// A change is told again while a transaction lasts, of whatever database, or test: also a change that was there
  /// when this reader read the whole.
  private var told: Set<[UInt64]> = []

  init(of storage: any Storage) async throws {
    self.storage = storage
    let read = Collected<DirectoryEntry>()
    place = try await storage.readDirectory { for entry in $0 { read.add(entry) } }
    var repeated: [ContactToken] = []
    for entry in read.values where entries.updateValue(entry, forKey: entry.token) != nil {
      repeated.append(entry.token)
    }
    try await resolve(repeated)
    _ = try await follow()
  }

  /// One reading of all pages.
  /// - Returns: how many changes there were that it had not been told of.
  mutating func follow(limit: Int = 100) async throws -> Int {
    var (count, next) = (0, place)
    var fence: DirectoryPlace?
    while true {
      let page = try #require(try await storage.directoryChanges(after: next, limit: limit))
      #expect(page.changes.count <= limit && page.isPartial == (page.changes.count == limit))
      #expect((page.fence.revision, page.fence.position) <= (page.next.revision, page.next.position))
      for change in page.changes {
        let subject: [UInt64]
        switch change.subject {
        case .token(let token):
          try await resolve([token])
          subject = [token.high, UInt64(token.low)]
        case .peer(let peer):
          try await begin(peer)
          subject = peer.text.utf8.map(UInt64.init)
        }
        if told.insert([change.revision] + subject).inserted { count += 1 }
      }
      next = page.next
      // The next reading finds changes that may still appear before the next page.
      if page.fence != page.next, fence == nil { fence = page.fence }
      guard page.isPartial else {
        place = fence ?? page.fence
        return count
      }
    }
  }

  /// Reads all contacts of `peer` that are known, or may be now.
  private mutating func begin(_ peer: RelayName) async throws {
    let removed = entries.values.filter { $0.relay == peer }.map(\.token)
    try await resolve(removed)
    var last: ContactToken?
    while case let page = try await storage.contactTokens(of: peer, after: last, limit: 7), !page.isEmpty {
      try await resolve(page)
      last = page.last
    }
  }

  private mutating func resolve(_ tokens: [ContactToken]) async throws {
    for token in tokens { entries[token] = nil }
    for entry in try await storage.entries(for: tokens) { entries[entry.token] = entry }
  }

  /// Whether it knows what the store says, range by range.
  func isCurrent() async throws -> Bool {
    var known: [ContactToken: DirectoryEntry] = [:]
    for range in DirectoryRange.all {
      let found = try await storage.directoryEntries(in: range)
      #expect(found.allSatisfy { $0.token.bytes[0] == range.firstByte })
      for entry in found { #expect(known.updateValue(entry, forKey: entry.token) == nil) }
    }
    return known == entries
  }

  /// Computed as the contract says, by other means than the stores'.
  func digest(of range: DirectoryRange) -> DirectoryDigest {
    let found = entries.values.filter { $0.token.bytes[0] == range.firstByte }
    let checksum = found.reduce(into: UInt64(0)) { checksum, entry in
      let text = (entry.supportsSMS ? "s" : "-") + (entry.voice ? "v" : "-") + (entry.relay?.text ?? "")
      let hash = Array(SHA256.hash(data: Data(entry.token.bytes + Array(text.utf8))))
      for place in 0..<8 { checksum ^= UInt64(hash[place]) << UInt64(56 - 8 * place) }
    }
    return DirectoryDigest(count: found.count, checksum: checksum)
  }
}

import NIOCore
import RelayCore

/// Reads one peer's listing once.
struct DirectoryPuller: Sendable {
  enum Failure: Error, CustomStringConvertible {
    case peer(PeerFailure)
    case refused(status: Int)
    case malformed
    /// More entries than we follow; what was read is kept, nothing is removed.
    case tooMany
    case store(StoreError)

    var description: String {
      switch self {
      case .peer(let failure): "\(failure)"
      case .refused(let status): "it answered \(status)"
      case .malformed: "its answer is not what reference 1.13.2 describes"
      case .tooMany: "it lists more entries than are followed"
      case .store(let error): "\(error)"
      }
    }
  }

  let transport: PeerTransport
  let directory: any DirectoryStore
  let contactsMax: Int

  /// Does nothing when the peer says that its listing is as it was at the end of the last complete pass.
  ///
  /// A listing that changes between two pages may hide an entry from this pass; its tag has changed then, and the
  /// next pass brings the entry back.
  /// - Returns: how many entries a new pass saw; nil when nothing had changed.
  func pull(from peer: KnownPeer) async throws(Failure) -> Int? {
    let (lastPass, lastMark) = try await storing { () throws(StoreError) in
      try await directory.contactsPass(of: peer.name)
    }
    guard let listing = try await count(peer, since: lastMark), listing.mark != lastMark else { return nil }
    let pass = lastPass + 1
    var offset = 0
    // An empty page before the count is reached ends the listing too (reference 1.13.5).
    while offset < listing.count {
      guard offset < contactsMax else { throw .tooMany }
      let page = try await page(peer, offset: offset)
      guard page.count > 0 else { break }
      try await storing { () throws(StoreError) in
        try await directory.mergeContacts(page.accounts, of: peer.name, pass: pass)
      }
      offset += page.count
    }
    try await storing { () throws(StoreError) in
      try await directory.finishContacts(of: peer.name, pass: pass, mark: listing.mark)
    }
    return offset
  }

  /// - Returns: nil when the listing is as `mark` says.
  private func count(_ peer: KnownPeer, since mark: String?) async throws(Failure) -> (count: Int, mark: String)? {
    var request = PeerRequest.get("/v1/federation/user_count")
    request.ifNoneMatch = mark.flatMap { $0.hasPrefix("\"") ? $0 : nil }
    let answer = try await send(request, to: peer)
    if answer.status == 304 { return nil }
    guard answer.status == 200 else { throw .refused(status: answer.status) }
    let count = try decode(answer) { json throws(JSONError) in try Self.decodeCount(json) }
    // A peer that sends no entity tag is read again when its count changes.
    let tag = answer.entityTag.flatMap { $0.hasPrefix("\"") && $0.utf8.count <= Self.tagBytesMax ? $0 : nil }
    return (count, tag ?? "count \(count)")
  }

  private func page(
    _ peer: KnownPeer, offset: Int
  ) async throws(Failure) -> (accounts: [ListedAccount], count: Int) {
    var request = PeerRequest.get("/v1/federation/user_tokens/\(offset)")
    request.answerBytesMax = Self.pageBytesMax
    let answer = try await send(request, to: peer)
    guard answer.status == 200 else { throw .refused(status: answer.status) }
    return try decode(answer) { json throws(JSONError) in try ContactCodec.decodeListing(json) }
  }

  private static let tagBytesMax = 128
  /// 10,000 entries of at most 100 bytes, doubled.
  private static let pageBytesMax = 2 << 20

  private func send(_ request: PeerRequest, to peer: KnownPeer) async throws(Failure) -> PeerAnswer {
    do throws(PeerFailure) {
      return try await transport.send(request, to: peer)
    } catch {
      throw .peer(error)
    }
  }

  private func decode<T>(_ answer: PeerAnswer, _ body: (RawSpan) throws(JSONError) -> T) throws(Failure) -> T {
    do throws(JSONError) {
      return try body(answer.body.readableBytesUInt8Span.bytes)
    } catch {
      throw .malformed
    }
  }

  private func storing<T: Sendable>(_ call: () async throws(StoreError) -> T) async throws(Failure) -> T {
    do throws(StoreError) {
      return try await call()
    } catch {
      throw .store(error)
    }
  }

  private static func decodeCount(_ json: RawSpan) throws(JSONError) -> Int {
    var reader = JSONReader(json)
    var count: Int64?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "count") { count = try reader.integer() } else { try reader.skip() }
    }
    try reader.finish()
    guard let count, count >= 0, let value = Int(exactly: count) else { throw .wrongShape }
    return value
  }
}

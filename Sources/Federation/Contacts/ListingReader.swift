import NIOCore
import RelayCore

/// Asks a peer for its listing: whole (reference 1.13.2), and as it changes (docs/federation.md, "The directory").
struct ListingReader: Sendable {
  let transport: PeerTransport

  func knowsFeed(_ peer: KnownPeer) async -> Bool { await transport.capabilities(of: peer).contains(.changes) }

  /// - Returns: where the peer's feed ends now; nil when it has none.
  func feedEnd(of peer: KnownPeer) async throws(SyncFailure) -> FeedCursor? {
    switch try await feed(of: peer, path: Self.feedPath) {
    case .changes(_, let cursor, _, _), .reset(let cursor): cursor
    case nil: nil
    }
  }

  /// - Parameter wait: how long the peer may keep the request until there is something to say, in whole seconds; 0 is
  ///   not at all. Older peers answer at once.
  /// - Returns: one page of the feed; nil when the peer has none.
  func feed(
    of peer: KnownPeer, after cursor: FeedCursor, waiting wait: Duration = .zero
  ) async throws(SyncFailure) -> FeedPage? {
    let wish = wait.components.seconds > 0 ? "&wait=\(wait.components.seconds)" : ""
    return try await feed(of: peer, path: "\(Self.feedPath)?after=\(cursor.text)\(wish)")
  }

  private func feed(of peer: KnownPeer, path: String) async throws(SyncFailure) -> FeedPage? {
    var request = PeerRequest.get(path)
    request.answerBytesMax = Self.pageBytesMax
    let answer = try await send(request, to: peer)
    if answer.status == 404 { return nil }
    guard answer.status == 200 else { throw .refused(status: answer.status) }
    return try decode(answer) { json throws(JSONError) in try FeedPage.decode(json) }
  }

  /// - Returns: nil when the listing is as `mark` says.
  func count(_ peer: KnownPeer, since mark: ListingMark?) async throws(SyncFailure) -> (count: Int, mark: ListingMark)?
  {
    var request = PeerRequest.get("/v1/federation/user_count")
    request.ifNoneMatch = mark?.entityTag
    let answer = try await send(request, to: peer)
    if answer.status == 304 { return nil }
    guard answer.status == 200 else { throw .refused(status: answer.status) }
    let count = try decode(answer) { json throws(JSONError) in try Self.decodeCount(json) }
    // A peer that sends no entity tag is read again when its count changes.
    let tag = answer.entityTag.flatMap { $0.hasPrefix("\"") && $0.utf8.count <= Self.tagBytesMax ? $0 : nil }
    let current = ListingMark.state(tag ?? "count \(count)")
    return current == mark ? nil : (count, current)
  }

  /// - Returns: what was understood, and how many entries the page held; none past the end.
  func page(
    _ peer: KnownPeer, offset: Int
  ) async throws(SyncFailure) -> (accounts: [ListedAccount], count: Int) {
    var request = PeerRequest.get("/v1/federation/user_tokens/\(offset)")
    request.answerBytesMax = Self.pageBytesMax
    let answer = try await send(request, to: peer)
    guard answer.status == 200 else { throw .refused(status: answer.status) }
    return try decode(answer) { json throws(JSONError) in try ContactCodec.decodeListing(json) }
  }

  private static let feedPath = "/v1/federation/changes"
  private static let tagBytesMax = 128
  /// 10,000 entries of at most 100 bytes, doubled.
  static let pageBytesMax = 2 << 20

  private func send(_ request: PeerRequest, to peer: KnownPeer) async throws(SyncFailure) -> PeerAnswer {
    do throws(PeerFailure) {
      return try await transport.send(request, to: peer)
    } catch {
      throw .peer(error)
    }
  }

  private func decode<T>(_ answer: PeerAnswer, _ body: (RawSpan) throws(JSONError) -> T) throws(SyncFailure) -> T {
    do throws(JSONError) {
      return try body(answer.body.readableBytesUInt8Span.bytes)
    } catch {
      throw .malformed
    }
  }

  private static func decodeCount(_ json: RawSpan) throws(JSONError) -> Int {
    let count = try JSONReader.property("count", of: json) { reader throws(JSONError) in try reader.integer() }
    guard let count, count >= 0, let value = Int(exactly: count) else { throw .wrongShape }
    return value
  }
}

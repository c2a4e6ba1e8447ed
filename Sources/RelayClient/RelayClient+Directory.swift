import RelayCore

/// What a directory says of a token.
public struct Contact: Sendable, Hashable, Decodable {
  /// As `ContactTokens.token(for:)` writes it.
  public let token: String
  /// The name of the relay where the number lives, or nil when that is the asked relay itself.
  public let relay: String?

  public init(token: String, relay: String?) {
    self.token = token
    self.relay = relay
  }
}

/// What has become of some contacts since a place in the directory's changes.
public struct ContactChanges: Sendable, Hashable, Decodable {
  /// Those that have changed and are known, or when `isComplete` all that are known, in the order of the request. A contact
  /// may come again that has not changed.
  public let contacts: [Contact]
  /// Tokens that are not known any more; empty when `isComplete`: then whatever is not among `contacts` is not known.
  public let removed: [String]
  /// What to ask with the next time.
  public let cursor: String
  public let isComplete: Bool

  public init(contacts: [Contact], removed: [String], cursor: String, isComplete: Bool) {
    self.contacts = contacts
    self.removed = removed
    self.cursor = cursor
    self.isComplete = isComplete
  }

  private enum CodingKeys: String, CodingKey {
    case contacts
    case removed
    case cursor
    case isComplete = "complete"
  }
}

extension RelayClient {
  /// Asks which of `tokens` are known.
  /// - Returns: one entry per known token, in the order of the request.
  /// - Throws: `.refused`: 400 a token that cannot be read, 413 too many.
  public func lookUp(_ tokens: [String]) async throws(RelayClientError) -> [Contact] {
    let request = try RelayRequest(
      .put, "/v1/directory/tokens", body: ["contacts": tokens], answerBytesMax: AnswerLimits.directoryBytesMax)
    return try await send(request).decoded([String: [Contact]].self)["contacts"] ?? []
  }

  /// Asks which of `tokens` have changed, an addition of this project's relays.
  ///
  /// - Parameter cursor: of the answer before to the same tokens; nil for the first time. With an old one, or one of another
  ///   relay, the answer is complete. Tokens that were not among those of the answer before belong into a request without one.
  /// - Throws: `.refused`: 400 a token that cannot be read, 404 another kind of relay, 413 too many.
  public func changes(of tokens: [String], since cursor: String? = nil) async throws(RelayClientError) -> ContactChanges
  {
    let request = try RelayRequest(
      .put, "/v1/directory/changes", body: WireChanges(contacts: tokens, cursor: cursor),
      answerBytesMax: AnswerLimits.directoryBytesMax)
    return try await send(request).decoded(ContactChanges.self)
  }

  private struct WireChanges: Encodable {
    let contacts: [String]
    let cursor: String?
  }

  /// Asks for one token.
  /// - Returns: nil when it is not known.
  /// - Throws: `.invalidArgument` for a token that is not the base64 of 10 bytes; `.refused`: 413 too many.
  public func lookUp(token: String) async throws(RelayClientError) -> Contact? {
    guard let bytes = Base64.decode(token), bytes.count == ContactToken.byteCount else {
      throw .invalidArgument("a token is the base64 of 10 bytes")
    }
    do {
      // The URL-safe alphabet, since one token in five has a slash.
      return try await send(RelayRequest(.get, "/v1/directory/\(Base64.encodeURLSafe(bytes))")).decoded(Contact.self)
    } catch {
      if error.status == 404 { return nil }
      throw error
    }
  }
}

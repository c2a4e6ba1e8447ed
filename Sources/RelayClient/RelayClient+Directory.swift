import RelayCore

/// A registered contact, as a directory answers it (reference 1.11).
public struct Contact: Sendable, Hashable, Decodable {
  /// The contact's token as ``ContactTokens/token(for:)`` writes it: 14 characters of base64 without padding.
  public let token: String
  /// The name of the relay where the number lives; nil for the relay that was asked.
  ///
  /// The name is the asked relay's own for that peer (reference 1.13.3). Pass it on as `relay` when sending and
  /// drawing keys, and keep it no longer than this entry.
  public let relay: String?

  /// Makes an entry, for stored address books and tests.
  /// - Parameters:
  ///   - token: 14 characters of base64 without padding.
  ///   - relay: the name of another relay; nil for the client's own.
  public init(token: String, relay: String?) {
    self.token = token
    self.relay = relay
  }
}

/// The changes of some contacts since an earlier answer (docs/protocol.md, "Changes").
public struct ContactChanges: Sendable, Hashable, Decodable {
  /// Registered contacts, in the order of the request: all of them when `isComplete`, otherwise those that have
  /// changed. A contact that has not changed may be among them.
  public let contacts: [Contact]
  /// Tokens that are not registered any more. It is empty when `isComplete`: then every token that is not among
  /// `contacts` is not registered.
  public let removed: [String]
  /// An opaque text for the next request, 1 to 41 characters.
  public let cursor: String
  /// True when the answer replaces all that the client has, false when it builds on the answer before.
  public let isComplete: Bool

  /// Makes an answer, for tests.
  /// - Parameters:
  ///   - contacts: registered contacts.
  ///   - removed: tokens that are not registered any more.
  ///   - cursor: the text for the next request.
  ///   - isComplete: whether the answer replaces all that the client has.
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
  /// Asks which of `tokens` are registered (reference 1.11). The relay learns all of them, also of people who never had
  /// an account: ``lookUp(_:telling:contacts:)`` tells it none, where the relay offers that.
  /// - Parameter tokens: as ``ContactTokens/token(for:)`` writes them. A relay's operator sets how many one request
  ///   may have, by default 20,000. Each is charged to the account's limits.
  /// - Returns: one entry for each registered token, in the order of the request; the others are left out.
  /// - Throws: `.refused`: 400 a token that cannot be read; 413 too many tokens, now or in all (`reason` tells which,
  ///   and `retryAfter` is nil where waiting does not help); 503 the relay is starting.
  public func lookUpInClear(_ tokens: [String]) async throws(RelayClientError) -> [Contact] {
    let request = try RelayRequest(
      .put, "/v1/directory/tokens", body: ["contacts": tokens], answerBytesMax: AnswerLimits.directoryBytesMax)
    return try await send(request).decoded([String: [Contact]].self)["contacts"] ?? []
  }

  /// Asks which of `tokens` have changed since an earlier answer. The relay learns all of them. Only this project's
  /// relays know it (docs/protocol.md, "Changes").
  ///
  /// A token that was not in the request before belongs in a request without a cursor, since it may have changed long
  /// ago.
  /// - Parameters:
  ///   - tokens: all contacts, in any order. They are charged as in ``lookUpInClear(_:)``.
  ///   - cursor: the text of the answer before to the same tokens; nil the first time. With an old one, or one of
  ///     another relay, the answer is complete.
  /// - Returns: the changes, with the cursor for the next request.
  /// - Throws: `.refused`: 400 a token that cannot be read; 404 a relay that does not offer it; 413 too many tokens;
  ///   503 the relay is starting.
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

  /// Asks whether one token is registered (reference 1.11). The relay learns it, as it does from a message to the
  /// number.
  /// - Parameter token: the base64 of 10 bytes, with or without padding.
  /// - Returns: nil when the relay answers 404: the token is not registered.
  /// - Throws: `.invalidArgument` for a token that is not the base64 of 10 bytes; nothing was sent. `.refused`: 413
  ///   too many tokens; 503 the relay is starting.
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

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

extension RelayClient {
  /// Asks which of `tokens` are known.
  /// - Returns: one entry per known token, in the order of the request.
  /// - Throws: `.refused`: 400 a token that cannot be read, 413 too many.
  public func lookUp(_ tokens: [String]) async throws(RelayClientError) -> [Contact] {
    let request = try RelayRequest(
      .put, "/v1/directory/tokens", body: ["contacts": tokens], answerBytesMax: AnswerLimits.directoryBytesMax)
    return try await send(request).decoded([String: [Contact]].self)["contacts"] ?? []
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

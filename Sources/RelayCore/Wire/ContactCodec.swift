/// The directory on the wire (reference 1.11, 1.13.2).
package enum ContactCodec {
  package enum TokenError: Error, Sendable, Equatable {
    case json(JSONError)
    /// A token is not the base64 of 10 bytes: 400 for the whole request.
    case undecodable
  }

  /// Reads the body of `PUT /v1/directory/tokens`.
  /// - Returns: the tokens in request order, repeats included.
  package static func decodeTokens(_ json: RawSpan) throws(TokenError) -> [ContactToken] {
    var isUndecodable = false
    let tokens: [ContactToken]
    do {
      tokens = try decodeTokens(json, isUndecodable: &isUndecodable)
    } catch {
      throw .json(error)
    }
    if isUndecodable { throw .undecodable }
    return tokens
  }

  private static func decodeTokens(_ json: RawSpan, isUndecodable: inout Bool) throws(JSONError) -> [ContactToken] {
    var reader = JSONReader(json)
    var tokens: [ContactToken]?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      guard reader.matches(key, "contacts") else {
        try reader.skip()
        continue
      }
      var list: [ContactToken] = []
      try reader.beginArray()
      while try reader.nextElement() {
        guard let text = try reader.string() else { throw .wrongShape }
        if let token = token(text) { list.append(token) } else { isUndecodable = true }
      }
      tokens = list
    }
    try reader.finish()
    guard let tokens else { throw .wrongShape }
    return tokens
  }

  /// A token as text: standard or URL-safe alphabet, padded or not.
  package static func token(_ text: some StringProtocol) -> ContactToken? {
    guard text.utf8.count <= 32, let bytes = Base64.decode(text.utf8) else { return nil }
    return ContactToken(bytes: bytes)
  }

  /// `{"contacts": [...]}`; properties with default values are left out.
  package static func encode(_ entries: [DirectoryEntry]) -> [UInt8] {
    var writer = JSONWriter(capacity: 32 + 48 * entries.count)
    writer.beginObject()
    writer.key("contacts")
    writer.beginArray()
    for entry in entries { encode(entry, into: &writer) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// One bare entry, for `GET /v1/directory/{token}`.
  package static func encode(_ entry: DirectoryEntry) -> [UInt8] {
    var writer = JSONWriter()
    encode(entry, into: &writer)
    return writer.bytes
  }

  private static func encode(_ entry: DirectoryEntry, into writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("token")
    writer.string(entry.token.base64)
    if let relay = entry.relay {
      writer.key("relay")
      writer.string(relay.text)
    }
    encodeFlags(supportsSMS: entry.supportsSMS, voice: entry.voice, into: &writer)
    writer.endObject()
  }

  /// One page of `user_tokens`, or what a peer learns of tokens that it asked for.
  package static func encode(_ accounts: [ListedAccount]) -> [UInt8] {
    var writer = JSONWriter(capacity: 32 + 32 * accounts.count)
    writer.beginObject()
    encodeList(accounts, into: &writer)
    writer.endObject()
    return writer.bytes
  }

  /// `"contacts": [...]`, a member of an object that the caller has begun.
  static func encodeList(_ accounts: [ListedAccount], into writer: inout JSONWriter) {
    writer.key("contacts")
    writer.beginArray()
    for account in accounts {
      writer.beginObject()
      writer.key("token")
      writer.string(account.token.base64)
      if account.isInactive {
        writer.key("inactive")
        writer.boolean(true)
      }
      encodeFlags(supportsSMS: account.supportsSMS, voice: account.voice, into: &writer)
      writer.endObject()
    }
    writer.endArray()
  }

  /// `{"contacts": [token...]}`: the body of `PUT /v1/directory/tokens`, as relays ask each other too.
  package static func encode(tokens: [ContactToken]) -> [UInt8] {
    var writer = JSONWriter(capacity: 32 + 17 * tokens.count)
    writer.beginObject()
    writer.key("contacts")
    writer.beginArray()
    for token in tokens { writer.string(token.base64) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// Reads one page of a peer's `user_tokens`. Entries whose token cannot be decoded are left out.
  /// - Returns: what was understood, and how many entries the page held.
  package static func decodeListing(_ json: RawSpan) throws(JSONError) -> (accounts: [ListedAccount], count: Int) {
    var reader = JSONReader(json)
    var accounts: [ListedAccount] = []
    var count = 0
    try reader.beginObject()
    while let key = try reader.nextKey() {
      guard reader.matches(key, "contacts") else {
        try reader.skip()
        continue
      }
      try decodeList(&reader, into: &accounts, count: &count)
    }
    try reader.finish()
    return (accounts, count)
  }

  /// Reads `[entry...]`, a page at most with what `count` says was read before.
  @_lifetime(reader: copy reader)
  static func decodeList(
    _ reader: inout JSONReader, into accounts: inout [ListedAccount], count: inout Int
  ) throws(JSONError) {
    try reader.beginArray()
    while try reader.nextElement() {
      guard count < WireLimits.contactsPerPage else { throw .tooLarge }
      count += 1
      if let account = try decodeListed(&reader) { accounts.append(account) }
    }
  }

  @_lifetime(reader: copy reader)
  private static func decodeListed(_ reader: inout JSONReader) throws(JSONError) -> ListedAccount? {
    var text: String?
    var isInactive = false
    var supportsSMS = false
    var voice = false
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "token") {
        text = try reader.string()
      } else if reader.matches(key, "inactive") {
        isInactive = try reader.boolean() ?? false
      } else if reader.matches(key, "supportsSms") {
        supportsSMS = try reader.boolean() ?? false
      } else if reader.matches(key, "voice") {
        voice = try reader.boolean() ?? false
      } else {
        try reader.skip()
      }
    }
    guard let text, let token = token(text) else { return nil }
    return ListedAccount(token: token, isInactive: isInactive, supportsSMS: supportsSMS, voice: voice)
  }

  private static func encodeFlags(supportsSMS: Bool, voice: Bool, into writer: inout JSONWriter) {
    if supportsSMS {
      writer.key("supportsSms")
      writer.boolean(true)
    }
    if voice {
      writer.key("voice")
      writer.boolean(true)
    }
  }
}

/// Contact tokens on the wire, and the directory as relays tell each other of it (reference 1.11, 1.13.2). For
/// requests and answers of clients see `ContactQuery` and `ContactAnswer`.
package enum ContactCodec {
  /// A token as text: standard or URL-safe alphabet, padded or not.
  package static func token(_ text: some StringProtocol) -> ContactToken? {
    guard text.utf8.count <= 32, let bytes = Base64.decode(text.utf8) else { return nil }
    return ContactToken(bytes: bytes)
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

import RelayCore
import TestTags
import Testing

/// Published vectors of the wire.
@Suite(.tags(.unit)) struct VectorTests {
  struct BasicAuth: Decodable {
    struct Parsed: Decodable {
      let number: String?
      let peer: String?
      let deviceId: Int64?
      let password: String?
    }
    let header: String
    let headerUnpaddedVariant: String?
    let parsed: Parsed?
  }

  @Test func `Basic headers are read padded and unpadded`() throws {
    let vectors = try Vectors.load("basic_auth", as: [BasicAuth].self).filter { $0.parsed?.number != nil }
    #expect(vectors.count >= 5)
    for vector in vectors {
      for header in [vector.header, vector.headerUnpaddedVariant].compactMap(\.self) {
        let credentials = try #require(BasicCredentials(header: header))
        #expect(credentials.address.account.e164 == vector.parsed?.number)
        #expect(Int64(credentials.address.device.value) == vector.parsed?.deviceId)
        #expect(credentials.password.value == vector.parsed?.password)
      }
    }
  }

  struct Rejected: Decodable { let header: String? }

  @Test func `headers that are no credentials are rejected`() throws {
    let vectors = try Vectors.load("basic_auth_rejected", as: [Rejected].self)
    #expect(vectors.count == 5)
    for vector in vectors { #expect(BasicCredentials(header: vector.header) == nil) }
  }

  /// A password may begin with a character that joins the one before it (reference 1.2: the first colon).
  @Test func `a password may begin with an accent`() throws {
    for password in ["\u{301}abc", ":x", "\u{FE0F}:"] {
      let header = "Basic " + Base64.encode(Array("+14155550100:\(password)".utf8), padded: true)
      let credentials = try #require(BasicCredentials(header: header))
      #expect(credentials.address.account.e164 == "+14155550100" && credentials.password.value == password)
    }
  }

  struct Tolerance: Decodable {
    let input: String
    let tolerantHex: String
  }

  @Test func `base64 is read with and without padding and white space`() throws {
    let vectors = try Vectors.load("base64_tolerance", as: [Tolerance].self)
    #expect(vectors.count == 6)
    for vector in vectors { #expect(Base64.decode(vector.input) == [UInt8](hex: vector.tolerantHex)) }
  }

  struct Token: Decodable {
    let tokenHex: String
    let tokenB64Unpadded: String
    let tokenB64Padded: String
    let tokenB64UrlUnpadded: String
  }

  @Test func `tokens are read in three spellings and written in one`() throws {
    for vector in try Vectors.load("contact_tokens", as: [Token].self) {
      for text in [vector.tokenB64Unpadded, vector.tokenB64Padded, vector.tokenB64UrlUnpadded] {
        let token = try #require(ContactCodec.token(text))
        #expect(token.bytes == [UInt8](hex: vector.tokenHex))
        #expect(token.base64 == vector.tokenB64Unpadded)
      }
    }
  }

  struct Validation: Decodable {
    struct Stored: Decodable {
      let id: Int64
      let registrationId: Int32
      let active: Bool
    }
    struct Message: Decodable {
      let destinationDeviceId: Int64
      let destinationRegistrationId: Int64?
    }
    struct Body: Decodable {
      let missingDevices: [Int32]?
      let extraDevices: [Int32]?
      let staleDevices: [Int32]?
    }
    let name: String
    let destinationDevices: [Stored]
    let sendingOwnDevice: Int64?
    let messages: [Message]
    let status: Int
    let body: Body?
  }

  @Test func `409 and 410 name exactly the devices that are wrong`() throws {
    let vectors = try Vectors.load("device_validation", as: [Validation].self)
    #expect(vectors.count == 13)
    let now = Timestamp(millis: 1_447_500_000_000)
    for vector in vectors {
      let account = try account(vector, now)
      let messages = try vector.messages.map { message in
        SubmittedMessage(
          type: .ciphertext, device: try #require(DeviceID(message.destinationDeviceId)),
          registrationID: message.destinationRegistrationId ?? 0, body: [1], content: nil)
      }
      let problem: Problem?
      do {
        try DeviceValidation.check(
          messages, against: account, sender: vector.sendingOwnDevice.flatMap { DeviceID($0) }, at: now)
        problem = nil
      } catch {
        problem = error
      }
      #expect((problem?.kind.status ?? 200) == vector.status, "\(vector.name)")
      switch problem?.devices {
      case .mismatched(let missing, let extra):
        #expect(missing.map(\.value) == vector.body?.missingDevices, "\(vector.name)")
        #expect(extra.map(\.value) == vector.body?.extraDevices, "\(vector.name)")
      case .stale(let stale): #expect(stale.map(\.value) == vector.body?.staleDevices, "\(vector.name)")
      case .full: Issue.record("\(vector.name)")
      case nil: #expect(vector.body == nil, "\(vector.name)")
      }
    }
  }

  private func account(_ vector: Validation, _ now: Timestamp) throws -> Account {
    let devices = try vector.destinationDevices.map { stored in
      Device(
        id: try #require(DeviceID(stored.id)), password: PasswordHash(salt: [], hash: []), signalingKey: Secret("k"),
        registrationID: stored.registrationId, fetchesMessages: stored.active, hasSignedPreKey: true, lastSeen: now,
        created: now)
    }
    return Account(
      number: try #require(AccountNumber(e164: "+14152222222")), devices: devices, identityKey: nil,
      supportsSMS: false, voice: false)
  }

  struct Trace: Decodable {
    struct Event: Decodable {
      let atMillis: Int64
      let amount: Double
    }
    let name: String
    let bucketSize: Double
    let leakPerMinute: Double
    let expirySeconds: Int64
    let events: [Event]
    let allowedFractionalRecommended: [Bool]
  }

  @Test func `buckets leak as corrected`() throws {
    let vectors = try Vectors.load("leaky_bucket", as: [Trace].self)
    #expect(vectors.count == 4)
    for vector in vectors {
      let shape = Bucket(size: vector.bucketSize, perMinute: vector.leakPerMinute)
      #expect(shape.refillMillis == vector.expirySeconds * 1000)
      var bucket = LeakyBucket(shape, at: Timestamp(millis: 0))
      let allowed = vector.events.map { event in
        bucket.take(event.amount, from: shape, at: Timestamp(millis: event.atMillis)) == .allowed
      }
      #expect(allowed == vector.allowedFractionalRecommended, "\(vector.name)")
    }
  }
}

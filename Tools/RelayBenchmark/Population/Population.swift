import RelayClient
import RelayCore

/// A registered device, as requests need it.
struct BenchmarkAccount: Sendable {
  /// `+` and 11 digits, all of one width.
  let number: String
  /// The value of its `Authorization` header.
  let authorization: String
  let password: String
  /// As it was uploaded: base64.
  let signalingKey: String
}

/// The accounts that the scenarios are about. Their numbers begin with +999, which is no country's.
struct Population: Sendable {
  /// The same for all, so that a request need not change with its recipient.
  static let registrationID = 4242
  /// Stands in an answer exactly when the key in it is the last resort.
  static let lastResortMark = Array(":\(DeviceKeys.lastResortID)".utf8)

  /// At alpha; one for each connection.
  let senders: [BenchmarkAccount]
  /// At alpha and at beta; never connected.
  let alphasRecipients: [BenchmarkAccount]
  let betasRecipients: [BenchmarkAccount]

  /// Registers everyone, many at once.
  init(_ servers: ServerGroup, settings: BenchmarkSettings) async throws {
    let registrar = Registrar(keyCount: settings.keysEach)
    senders = try await registrar.register(settings.connections, firstDigits: 1, at: servers.alpha.url)
    alphasRecipients = try await registrar.register(settings.recipients, firstDigits: 2, at: servers.alpha.url)
    betasRecipients = try await registrar.register(settings.recipients, firstDigits: 3, at: servers.beta.url)
  }
}

/// The accounts whose devices are connected. Nothing waits for them, unlike for those of `Population`.
struct LivePopulation: Sendable {
  /// At alpha; one for each connection.
  let senders: [BenchmarkAccount]
  let recipients: [BenchmarkAccount]

  init(_ servers: ServerGroup, settings: BenchmarkSettings) async throws {
    let registrar = Registrar(keyCount: 1)
    senders = try await registrar.register(settings.connections, firstDigits: 4, at: servers.alpha.url)
    recipients = try await registrar.register(settings.recipients, firstDigits: 5, at: servers.alpha.url)
  }
}

/// Accounts of alpha for measurements of their own: senders, and recipients that are never connected.
struct ExtraPopulation: Sendable {
  let senders: [BenchmarkAccount]
  let recipients: [BenchmarkAccount]

  /// - Parameter place: other measurements have other places.
  init(_ servers: ServerGroup, settings: BenchmarkSettings, place: Int) async throws {
    let registrar = Registrar(keyCount: 1)
    let first = place * 100_000
    senders = try await registrar.register(settings.connections, firstDigits: 9, from: first, at: servers.alpha.url)
    recipients = try await registrar.register(
      settings.recipients, firstDigits: 9, from: first + 50_000, at: servers.alpha.url)
  }
}

/// Registers accounts by the transport `dev`.
struct Registrar: Sendable {
  let keyCount: Int
  private static let atOnce = 32

  /// - Parameter first: of their places behind the first digits.
  /// - Returns: `count` accounts, ascending by number.
  func register(_ count: Int, firstDigits: Int, from first: Int = 0, at url: String) async throws -> [BenchmarkAccount]
  {
    var options = RelayClient.Options()
    options.connectionsMax = Self.atOnce
    let relay = try RelayClient(url: url, options: options)
    return try await withThrowingTaskGroup(of: (Int, BenchmarkAccount).self) { group in
      var accounts = [BenchmarkAccount?](repeating: nil, count: count)
      for index in 0..<count {
        if index >= Self.atOnce, let (done, account) = try await group.next() { accounts[done] = account }
        group.addTask { (index, try await register("+999\(firstDigits * 10_000_000 + first + index)", relay)) }
      }
      for try await (done, account) in group { accounts[done] = account }
      return accounts.compactMap { $0 }
    }
  }

  private func register(_ e164: String, _ relay: RelayClient) async throws -> BenchmarkAccount {
    guard let number = PhoneNumber(e164) else { throw BenchmarkFailure("a number of the benchmark is none") }
    guard let code = try await relay.requestCode(for: number, by: .development) else {
      throw BenchmarkFailure("the transport dev answered without a code")
    }
    let credentials = Credentials.random(for: number)
    let client = relay.with(credentials)
    let drawn = DeviceAttributes.random()
    try await client.confirm(
      code: code,
      attributes: DeviceAttributes(
        signalingKey: drawn.signalingKey, registrationID: Population.registrationID, fetchesMessages: true))
    try await client.upload(keys())
    let basic = Base64.encode(Array("\(e164):\(credentials.password)".utf8), padded: true)
    return BenchmarkAccount(
      number: e164, authorization: "Basic \(basic)", password: credentials.password, signalingKey: drawn.signalingKey)
  }

  /// Keys that look like keys: a relay passes them on unread, and making real ones would take longer than the test.
  private func keys() -> PreKeyBundle {
    PreKeyBundle(
      identityKey: keyText(),
      oneTimeKeys: (0..<keyCount).map { PublicPreKey(keyID: Int64($0 + 1), publicKey: keyText()) },
      lastResort: PublicPreKey(keyID: DeviceKeys.lastResortID, publicKey: keyText()))
  }

  private func keyText() -> String { Base64.encode([0x05] + randomBytes(32), padded: false) }
}

/// Bytes that do not compress, as ciphertext does not.
func randomBytes(_ count: Int) -> [UInt8] {
  var generator = SystemRandomNumberGenerator()
  var bytes: [UInt8] = []
  bytes.reserveCapacity(count + 7)
  while bytes.count < count { withUnsafeBytes(of: generator.next()) { bytes.append(contentsOf: $0) } }
  return Array(bytes.prefix(count))
}

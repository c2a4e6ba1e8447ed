import ChildProcesses
import RelayCore

/// The contacts of a `LargeDirectory` in one hash of a Redis, as servers of this protocol first kept them: what
/// look-ups are compared with.
///
/// One session asks for whole address books by `HMGET`, several under way at a time, the commands written beforehand:
/// as fast as Redis goes, with no HTTP, no account and no limit around it.
struct HashBenchmark: Sendable {
  private let redis: RedisServer
  fileprivate static let key = Array("directory".utf8)
  /// Tokens that are asked for at any moment.
  private static let tokensUnderWay = 20_000
  private static let pairsOfCommand = 1000
  private static let fillingCommandsUnderWay = 64

  /// Starts the Redis and fills it with `entries` contacts of `peer`.
  init(in workshop: Workshop, entries: Int, of peer: RelayName) async throws {
    let redis = try await RedisServer.start("redis-hash", in: workshop, port: FreePorts.find(1)[0])
    self.redis = redis
    let value = Array(#"{"r":"\#(peer.text)"}"#.utf8)
    try await Cancellation.watch { cancellation in
      try await onOwnThread { try Self.fill(try RedisSession(redis), entries, value, cancellation) }
    }
  }

  private static func fill(
    _ session: consuming RedisSession, _ entries: Int, _ value: [UInt8], _ cancellation: Cancellation
  ) throws {
    var underWay = 0
    for first in stride(from: 0, to: entries, by: pairsOfCommand) {
      try cancellation.check()
      let pairs = (first..<min(first + pairsOfCommand, entries)).flatMap { [Contacts.token($0).bytes, value] }
      try session.send(RedisSession.command([Array("HSET".utf8), key] + pairs))
      underWay += 1
      if underWay == fillingCommandsUnderWay {
        _ = try session.answer()
        underWay -= 1
      }
    }
    for _ in 0..<underWay { _ = try session.answer() }
  }

  /// - Parameter books: at least one, all of one size.
  /// - Throws: `BenchmarkFailure` when an answer holds other than what is known.
  func run(_ books: [AddressBook], _ settings: BenchmarkSettings) async throws -> HashFigures {
    try await Cancellation.watch { cancellation in
      try await onOwnThread { [self] in try measure(books, settings, cancellation) }
    }
  }

  private func measure(
    _ books: [AddressBook], _ settings: BenchmarkSettings, _ cancellation: Cancellation
  ) throws -> HashFigures {
    var load = HashLoad(try RedisSession(redis), books)
    for _ in 0..<max(2, Self.tokensUnderWay / load.size) { try load.send() }
    let clock = ContinuousClock()
    let warm = clock.now + .seconds(settings.warmUpSeconds)
    while clock.now < warm { try load.turn(cancellation) }
    let (serverBefore, clientBefore) = (try serverSeconds(), ProcessUsage.cpuSecondsOfThread())
    let (start, answeredBefore) = (clock.now, load.answered)
    let end = start + .seconds(settings.seconds)
    while clock.now < end { try load.turn(cancellation) }
    let figures = HashFigures(
      tokens: (load.answered - answeredBefore) * load.size, seconds: (clock.now - start) / .seconds(1),
      serverSeconds: try serverSeconds() - serverBefore,
      clientSeconds: ProcessUsage.cpuSecondsOfThread() - clientBefore)
    while load.isUnderWay { try load.receive() }
    return figures
  }

  private func serverSeconds() throws -> Double { try ProcessUsage.cpuSecondsOfProcess(redis.process.pid) }
}

/// Requests for whole address books in turn, over one session.
private struct HashLoad: ~Copyable {
  /// Tokens of a request.
  let size: Int
  private(set) var answered = 0
  private var sent = 0
  private let session: RedisSession
  private let commands: [[UInt8]]
  /// How many tokens of each are known.
  private let known: [Int]

  /// - Parameter books: at least one, all of one size.
  init(_ session: consuming RedisSession, _ books: [AddressBook]) {
    self.session = session
    size = books[0].tokens.count
    commands = books.map { RedisSession.command([Array("HMGET".utf8), HashBenchmark.key] + $0.tokens.map(\.bytes)) }
    known = books.map(\.known.count)
  }

  var isUnderWay: Bool { answered < sent }

  mutating func send() throws(BenchmarkFailure) {
    try session.send(commands[sent % commands.count])
    sent += 1
  }

  /// Waits for the oldest request's answer.
  /// - Throws: `BenchmarkFailure` when it holds other than what is known.
  mutating func receive() throws(BenchmarkFailure) {
    let (found, expected) = (try session.answer(), known[answered % known.count])
    guard found == expected else { throw BenchmarkFailure("Redis knows \(found) contacts, \(expected) are there") }
    answered += 1
  }

  mutating func turn(_ cancellation: Cancellation) throws {
    try cancellation.check()
    try receive()
    try send()
  }
}

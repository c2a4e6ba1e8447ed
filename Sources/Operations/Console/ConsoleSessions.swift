import RelayCore
import Synchronization

/// The browsers that are signed in to this process's console. They are forgotten when the process ends.
///
/// A session is good only while the configuration still has the token that opened it.
final class ConsoleSessions: Sendable {
  struct Session: Sendable {
    /// Opened it.
    let reader: OperatorToken
    /// May change things until `changesUntil`.
    fileprivate(set) var changer: OperatorToken?
    fileprivate(set) var changesUntil: ContinuousClock.Instant
    /// Every form of the session carries it: a page of another origin does not know it.
    let formKey: String
    fileprivate let id: String
    fileprivate let opened: ContinuousClock.Instant
    fileprivate var used: ContinuousClock.Instant
  }

  private struct State {
    var sessions: [Session] = []
    var failures = 0
    var failuresSince: ContinuousClock.Instant
  }

  private let state: Mutex<State>
  private let tokens: @Sendable () -> OperatorTokens
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameter tokens: as they are now.
  init(
    tokens: @escaping @Sendable () -> OperatorTokens,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
  ) {
    self.tokens = tokens
    self.now = now
    state = Mutex(State(failuresSince: now()))
  }

  enum Entrance: Equatable {
    case opened(cookie: String)
    case wrong
    /// Too many wrong tokens came to this process: try again in so many seconds.
    case tooMany(seconds: Int)
  }

  var isOff: Bool { tokens().isEmpty }

  /// Opens a session with a token. The one that was used longest ago makes room.
  func open(with text: String) -> Entrance {
    let now = now()
    return state.withLock { state in
      if let wait = Self.wait(&state, now) { return .tooMany(seconds: wait) }
      guard let (token, mayChange) = token(text) else {
        state.failures += 1
        return .wrong
      }
      if state.sessions.count >= Self.sessionsMax {
        state.sessions.sort { $0.used < $1.used }
        state.sessions.removeFirst(state.sessions.count - Self.sessionsMax + 1)
      }
      let id = Self.random()
      state.sessions.append(
        Session(
          reader: token, changer: mayChange ? token : nil, changesUntil: now + Self.changesFor,
          formKey: Self.random(), id: id, opened: now, used: now))
      return .opened(cookie: id)
    }
  }

  /// The session of a cookie; nil where it has ended.
  /// - Parameter isUse: whether it is a person who asks, and no page that draws itself.
  func session(_ cookie: String?, isUse: Bool = true) -> Session? {
    guard let cookie else { return nil }
    let (given, now, tokens) = (Array(cookie.utf8), now(), tokens())
    return state.withLock { state in
      state.sessions.removeAll { session in
        session.used + Self.idleMax <= now || session.opened + Self.lengthMax <= now || !tokens.has(session.reader)
      }
      var found: Int?
      for (index, session) in state.sessions.enumerated()
      where constantTimeEquals(Array(session.id.utf8), given) { found = index }
      guard let found else { return nil }
      if isUse { state.sessions[found].used = now }
      if let changer = state.sessions[found].changer,
        state.sessions[found].changesUntil <= now || !tokens.change.contains(changer)
      {
        state.sessions[found].changer = nil
      }
      return state.sessions[found]
    }
  }

  /// Lets a session change things for a while. - Returns: nil where the token may.
  func unlock(_ session: Session, with text: String) -> Entrance? {
    let now = now()
    return state.withLock { state in
      if let wait = Self.wait(&state, now) { return .tooMany(seconds: wait) }
      guard let (token, mayChange) = token(text), mayChange else {
        state.failures += 1
        return .wrong
      }
      for index in state.sessions.indices where state.sessions[index].id == session.id {
        state.sessions[index].changer = token
        state.sessions[index].changesUntil = now + Self.changesFor
      }
      return nil
    }
  }

  func close(_ session: Session) { state.withLock { $0.sessions.removeAll { $0.id == session.id } } }

  private func token(_ text: String) -> (OperatorToken, Bool)? { tokens().token(of: text) }

  /// Seconds until another token may be tried.
  private static func wait(_ state: inout State, _ now: ContinuousClock.Instant) -> Int? {
    if state.failuresSince + failureWindow <= now { (state.failures, state.failuresSince) = (0, now) }
    guard state.failures >= failuresMax else { return nil }
    return max(1, Int((state.failuresSince + failureWindow - now) / .seconds(1)))
  }

  /// 256 bits in hexadecimal.
  private static func random() -> String {
    var random = SystemRandomNumberGenerator()
    return (0..<32).map { _ in
      let byte = UInt8.random(in: .min ... .max, using: &random)
      return (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }

  private static let sessionsMax = 64
  static let idleMax = Duration.seconds(3600)
  static let lengthMax = Duration.seconds(12 * 3600)
  /// How long a change token holds.
  static let changesFor = Duration.seconds(15 * 60)
  static let failuresMax = 20
  private static let failureWindow = Duration.seconds(60)
}

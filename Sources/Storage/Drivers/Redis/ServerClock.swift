/// A server's clock as this process knows it, by having asked for the time.
///
/// Between the question and the answer the server's clock showed what it told; the middle is taken for that moment. So
/// it is wrong by half of the round trip at most, and by what the two clocks drift apart until the next answer. This
/// process's clock is one that nobody sets.
struct ServerClock: Sendable, Equatable {
  private let micros: Int64
  private let moment: ContinuousClock.Instant
  private let doubt: Duration

  /// - Parameter micros: what the server told, in microseconds since 1970.
  init(micros: Int64, asked: ContinuousClock.Instant, answered: ContinuousClock.Instant) {
    self.micros = micros
    doubt = max(.zero, (answered - asked) / 2)
    moment = asked + doubt
  }

  /// The time of the server's clock at `instant`, past or future.
  func micros(at instant: ContinuousClock.Instant) -> Int64 {
    micros + Int64((instant - moment) / .microseconds(1))
  }

  /// The better one of this and what was learned later: that, unless this is as right and was learned by a quicker
  /// answer.
  func corrected(by later: ServerClock) -> ServerClock {
    let drift = (later.moment - moment) * Self.driftMax
    guard later.doubt > doubt + drift else { return later }
    // Both cannot be right: the server's clock was set, or it is another server.
    let difference = Duration.microseconds(later.micros - micros(at: later.moment))
    let isContradicted = max(difference, .zero - difference) > doubt + drift + later.doubt
    return isContradicted ? later : self
  }

  /// How fast two clocks drift apart that are not steered: quartz keeps within a tenth of it.
  private static let driftMax = 0.000_5
}

extension ServerClock {
  /// - Parameter reply: of `TIME`.
  /// - Returns: nil for an answer that `TIME` does not give.
  init?(_ reply: RedisReply?, asked: ContinuousClock.Instant, answered: ContinuousClock.Instant) {
    guard case .array(let parts) = reply, parts.count == 2, let seconds = parts[0].number,
      let micros = parts[1].number, (0...Self.secondsMax).contains(seconds), (0..<1_000_000).contains(micros)
    else { return nil }
    self.init(micros: seconds * 1_000_000 + micros, asked: asked, answered: answered)
  }

  /// Lua counts microseconds exactly until the year 2255.
  private static let secondsMax: Int64 = 9_000_000_000
}

extension RedisReply {
  /// nil for what is no text of digits.
  fileprivate var number: Int64? {
    guard case .bytes(let digits) = self else { return nil }
    return Int64(String(decoding: digits, as: UTF8.self))
  }
}

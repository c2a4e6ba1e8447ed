import RelayCore

/// The columns that a settlement writes, the same in both stores: times in milliseconds from now.
struct WakeSettlementColumns {
  /// The row goes, unless it was asked for again.
  let drops: Bool
  /// The row rests, unless it was asked for again.
  let rests: Bool
  let followsCall: Bool
  /// Whether earlier attempts still count.
  let keepsAttempts: Bool
  /// 1 where this one does not.
  let uncounted: Int32
  /// Not sent before, whoever asks.
  let hold: Int64
  /// Not sent before, unless somebody asks.
  let pause: Int64
  /// A row that rests is forgotten then.
  let memory: Int64

  init(_ disposal: WakeDisposal, of job: WakeJob) {
    switch disposal {
    case .drop: self.init(drops: true, keepsAttempts: false)
    case .rest(let pause, let memory):
      self.init(rests: true, keepsAttempts: false, pause: pause, memory: memory)
    case .putOff(let pause, let counts):
      self.init(followsCall: job.followsCall, keepsAttempts: true, uncounted: counts ? 0 : 1, pause: pause)
    case .lookAgain(let pause):
      self.init(followsCall: job.followsCall, keepsAttempts: true, hold: .zero, pause: pause)
    case .follow(let pause):
      self.init(followsCall: true, keepsAttempts: false, pause: pause)
    }
  }

  private init(
    drops: Bool = false, rests: Bool = false, followsCall: Bool = false, keepsAttempts: Bool,
    uncounted: Int32 = 0, hold: Duration? = nil, pause: Duration = .zero, memory: Duration = .zero
  ) {
    self.drops = drops
    self.rests = rests
    self.followsCall = followsCall
    self.keepsAttempts = keepsAttempts
    self.uncounted = uncounted
    self.hold = (hold ?? pause).wakeMillis
    self.pause = pause.wakeMillis
    self.memory = max(pause, memory).wakeMillis
  }
}

import RelayCore

/// The sessions of one process, found by device and by account, and gone round in two rhythms. One of a device.
struct SessionTable {
  private var sessions: [AccountNumber: [DeviceSession]] = [:]
  private(set) var count = 0
  /// The sessions whose presence is to be renewed, and those whose mailbox is to be read.
  private var renewals: SessionRounds<DeviceSession>
  private var polls: SessionRounds<DeviceSession>

  /// - Parameters:
  ///   - renewalSteps: steps of a round of renewals.
  ///   - pollSteps: of a round of reads.
  init(renewalSteps: Int, pollSteps: Int) {
    renewals = SessionRounds(steps: renewalSteps)
    polls = SessionRounds(steps: pollSteps)
  }

  var all: [DeviceSession] { sessions.values.flatMap(\.self) }

  func session(of device: DeviceAddress) -> DeviceSession? {
    sessions[device.account]?.first { $0.device == device }
  }

  func sessions(of account: AccountNumber) -> [DeviceSession] { sessions[account] ?? [] }

  /// - Returns: the session of the same device that was in its place.
  mutating func insert(_ session: DeviceSession) -> DeviceSession? {
    let older = self.session(of: session.device)
    if let older { remove(older) }
    sessions[session.device.account, default: []].append(session)
    renewals.insert(session, id: session.id)
    polls.insert(session, id: session.id)
    count += 1
    return older
  }

  /// - Returns: false when it is not there, because another one is in its place or it never was.
  @discardableResult
  mutating func remove(_ session: DeviceSession) -> Bool {
    let account = session.device.account
    guard var others = sessions[account], let index = others.firstIndex(where: { $0 === session }) else { return false }
    others.remove(at: index)
    sessions[account] = others.isEmpty ? nil : others
    renewals.remove(id: session.id)
    polls.remove(id: session.id)
    count -= 1
    return true
  }

  mutating func dueForRenewal() -> [DeviceSession] { renewals.next() }
  mutating func dueForPoll() -> [DeviceSession] { polls.next() }
}

/// Goes round many members within one interval, a few at each step: one timer for all, and no moment at which all are
/// due.
///
/// A member's id says when its turn is: ids are drawn at random.
struct SessionRounds<Member> {
  private var steps: [[UInt64: Member]]
  private var nextStep = 0

  /// - Parameter count: steps of one round, 1 or more.
  init(steps count: Int) { steps = Array(repeating: [:], count: count) }

  mutating func insert(_ member: Member, id: UInt64) { steps[step(of: id)][id] = member }
  mutating func remove(id: UInt64) { steps[step(of: id)][id] = nil }

  /// The members whose turn it is now, in no order. As many calls as there are steps name each member once.
  mutating func next() -> [Member] {
    defer { nextStep = (nextStep + 1) % steps.count }
    return Array(steps[nextStep].values)
  }

  private func step(of id: UInt64) -> Int { Int(id % UInt64(steps.count)) }
}

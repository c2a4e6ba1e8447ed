import RelayCore

/// The answer of one sentinel to the question for the primary of a group.
enum SentinelAnswer: Equatable {
  /// - Parameter epoch: the number of the fail-over that made it the primary. It only rises, so the answer with the
  ///   highest one is the newest.
  case primary(RedisEndpoint.Address, epoch: Int64)
  case unknownGroup
  /// It knows the group and names nobody that can be used.
  case nonsense

  /// - Parameters:
  ///   - state: the answer to `SENTINEL MASTER`: names and values in turn.
  ///   - address: the answer to `SENTINEL GET-MASTER-ADDR-BY-NAME`: host and port.
  /// - Returns: nil for answers that no sentinel gives.
  init?(state: RedisReply?, address: RedisReply) {
    switch address {
    case .null: self = .unknownGroup
    case .array(let parts):
      guard parts.count == 2, let host = parts[0].name, let port = parts[1].name.flatMap({ Int($0) }),
        (1...65_535).contains(port)
      else {
        self = .nonsense
        return
      }
      self = .primary(.tcp(host: host, port: port), epoch: Self.epoch(of: state))
    default: return nil
    }
  }

  /// - Returns: 0 for what holds none: such an answer gives way to every other.
  private static func epoch(of state: RedisReply?) -> Int64 {
    guard case .array(let parts) = state, let place = parts.firstIndex(of: .bytes(Array("config-epoch".utf8))),
      place.isMultiple(of: 2), place + 1 < parts.count
    else { return 0 }
    return parts[place + 1].name.flatMap { Int64($0) } ?? 0
  }
}

extension RedisReply {
  /// A name, an address or a number of a server: visible ASCII. nil for anything else.
  var name: String? {
    guard case .bytes(let bytes) = self, (1...255).contains(bytes.count),
      bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
    else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// The answers of all sentinels of a group, and the primary that follows from them.
///
/// The newest answer of each sentinel counts, also of one that is away by now. The highest epoch among them
/// decides: a sentinel that was cut off, or died, names an old primary under an old epoch. Among answers with one epoch
/// the address that most of them name decides, and then the order of the sentinels. Where a majority of all sentinels
/// answers and agrees, one that has been away for longer than a restart takes is not heard any more: it may be gone for
/// good, and its epoch with it.
struct SentinelOpinions {
  private struct Opinion {
    /// The last one.
    var answer: SentinelAnswer?
    /// Why it does not answer; nil while it does, and before the first attempt.
    var fault: RedisLinkFault?
    /// Since when; of one that has a fault.
    var since = ContinuousClock.now
  }
  /// For so long a sentinel that is away is heard.
  private static let heardFor = Duration.seconds(60)
  private let addresses: [RedisEndpoint.Address]
  private let group: String
  private var opinions: [Opinion]
  private(set) var primary: RedisEndpoint.Address?

  init(_ sentinels: RedisSentinels) {
    addresses = sentinels.addresses
    group = sentinels.group
    opinions = addresses.map { _ in Opinion() }
  }

  /// - Parameter index: of the sentinel.
  /// - Returns: whether there is something new for those who want a way to the primary.
  mutating func answered(_ answer: SentinelAnswer, _ index: Int, at now: ContinuousClock.Instant = .now) -> Bool {
    opinions[index] = Opinion(answer: answer, fault: nil)
    let former = primary
    if agree(at: now) {
      for away in opinions.indices where opinions[away].fault != nil { opinions[away].answer = nil }
    }
    primary = elected ?? former
    return primary != former || primary == nil
  }

  /// - Returns: as `answered`.
  mutating func away(_ fault: RedisLinkFault, _ index: Int, at now: ContinuousClock.Instant = .now) -> Bool {
    if opinions[index].fault == nil { opinions[index].since = now }
    opinions[index].fault = fault
    return primary == nil
  }

  /// Whether a majority of all sentinels names one primary now, none that answers another one, and none that is away
  /// has to be heard.
  private func agree(at now: ContinuousClock.Instant) -> Bool {
    let present = opinions.filter { $0.fault == nil }
    guard 2 * present.count > opinions.count, case .primary(let address, _)? = present[0].answer else { return false }
    return present.allSatisfy { if case .primary(address, _)? = $0.answer { true } else { false } }
      && opinions.allSatisfy { $0.fault == nil || $0.since + Self.heardFor < now }
  }

  private var elected: RedisEndpoint.Address? {
    var votes: [(address: RedisEndpoint.Address, epoch: Int64, count: Int)] = []
    for case .primary(let address, let epoch)? in opinions.map(\.answer) {
      if let place = votes.firstIndex(where: { $0.address == address && $0.epoch == epoch }) {
        votes[place].count += 1
      } else {
        votes.append((address, epoch, 1))
      }
    }
    guard let newest = votes.map(\.epoch).max() else { return nil }
    let rivals = votes.filter { $0.epoch == newest }
    guard let most = rivals.map(\.count).max() else { return nil }
    return rivals.first { $0.count == most }?.address
  }

  /// Whether every sentinel was tried.
  var isComplete: Bool { opinions.allSatisfy { $0.answer != nil || $0.fault != nil } }

  /// Why nobody is named; nil while somebody is, or may be by a sentinel that has not been reached yet.
  var fault: RedisLinkFault? {
    guard primary == nil, isComplete else { return nil }
    if opinions.contains(where: { $0.answer == .unknownGroup }) {
      return RedisLinkFault(
        "the sentinels know no primary named \(group): coordination.url must name it as sentinel monitor does",
        isRefusal: true)
    }
    if opinions.contains(where: { $0.answer == .nonsense }) {
      return RedisLinkFault("the sentinels name no address of Redis that can be used", isRefusal: true)
    }
    let faults = faults
    return RedisLinkFault(
      "no sentinel of Redis answers: \(faults.map(\.reason).joined(separator: "; "))",
      isRefusal: faults.contains(where: \.isRefusal))
  }

  /// The sentinels that do not answer, with their reasons.
  var faults: [RedisLinkFault] {
    zip(addresses, opinions).compactMap { address, opinion in
      opinion.fault.map { RedisLinkFault("sentinel \(address): \($0.reason)", isRefusal: $0.isRefusal) }
    }
  }

  /// The sentinels that answer and name another primary than the one that follows from all answers, or none.
  var dissenters: [RedisEndpoint.Address] {
    zip(addresses, opinions).compactMap { address, opinion in
      guard opinion.fault == nil, let answer = opinion.answer else { return nil }
      if case .primary(let named, _) = answer, named == primary { return nil }
      return address
    }
  }
}

import CampaignModel
import Foundation
import RelayClient
import Synchronization
import TestSupport

/// The state that all devices of a campaign share: the history, the ways to the operators, and the devices by their
/// addresses.
final class CampaignWorld: Sendable {
  let sites: [CampaignSite]
  let history: HistoryWriter
  /// How long devices keep a connection that do not keep it to its end.
  let idleSeconds: ClosedRange<Double>
  /// The clients of each operator: its balancer first, then its processes.
  private let entrances: [[RelayClient]]
  private let state = Mutex(State())

  private struct State {
    var devices: [Correspondent: DeviceIndex] = [:]
    var count = 0
    var messages = 0
    /// The parties of each message, by the addresses of then: another device may have such an address by now.
    var parties: [MessageNumber: [Correspondent: DeviceIndex]] = [:]
    var keys = 0
    /// Copies that were submitted and have not come, and whether they are accepted.
    var expected: [Copy: Bool] = [:]
    var acceptedExpected = 0
    var accepted = 0
    var slowSites: Set<String> = []
    /// The devices that are told of pushes.
    var sleepers: [DeviceIndex: AsyncStream<Void>.Continuation] = [:]
  }

  init(_ sites: [CampaignSite], _ pushes: CampaignPushes, _ history: HistoryWriter, idleSeconds: ClosedRange<Double>)
    throws
  {
    self.idleSeconds = idleSeconds
    self.sites = sites
    self.history = history
    entrances = try sites.map { site in
      try ([site.url] + site.team.urls).map { try RelayClient.entrance($0, patience: .seconds(10)) }
    }
    pushes.whenPushed { [weak self] device in self?.pushed(device) }
  }

  /// A way to the operator: mostly by its balancer.
  func entrance(of site: Int, _ random: inout SeededGenerator, mayMiss: Bool = true) -> (RelayClient, Place) {
    let ways = entrances[site]
    let process = mayMiss ? Int.random(in: -8..<(ways.count - 1), using: &random) : -1
    return process < 0
      ? (ways[0], Place(sites[site].name)) : (ways[process + 1], Place(sites[site].name, process))
  }

  // MARK: - Names

  func index(of device: Correspondent) -> DeviceIndex? { state.withLock { $0.devices[device] } }

  /// The device that had the address `device` when `message` was written. It wrote the message or got it.
  func index(of device: Correspondent, in message: MessageNumber) -> DeviceIndex? {
    state.withLock { $0.parties[message]?[device] ?? $0.devices[device] }
  }

  func newDevice() -> DeviceIndex {
    state.withLock { state in
      state.count += 1
      return DeviceIndex(state.count - 1)
    }
  }

  func know(_ index: DeviceIndex, as device: Correspondent) { state.withLock { $0.devices[device] = index } }

  func newMessage(between parties: [CampaignDevice]) -> MessageNumber {
    state.withLock { state in
      state.messages += 1
      let message = MessageNumber(state.messages)
      state.parties[message] = Dictionary(parties.map { ($0.credentials.device, $0.index) }) { first, _ in first }
      return message
    }
  }

  /// A number of a one-time key that no upload had before.
  func newKeyNumbers(_ count: Int) -> Range<Int> {
    state.withLock { state in
      defer { state.keys += count }
      return (state.keys + 1)..<(state.keys + 1 + count)
    }
  }

  // MARK: - What is still to come

  func expect(_ message: MessageNumber, for recipients: [DeviceIndex]) {
    state.withLock { state in for device in recipients { state.expected[Copy(message, device)] = false } }
  }

  func accepted(_ message: MessageNumber, for recipients: [DeviceIndex]) {
    state.withLock { state in
      state.accepted += 1
      for device in recipients where state.expected[Copy(message, device)] == false {
        state.expected[Copy(message, device)] = true
        state.acceptedExpected += 1
      }
    }
  }

  /// Delivered, or not to be expected any more.
  func settled(_ copy: Copy) {
    state.withLock { state in
      if state.expected.removeValue(forKey: copy) == true { state.acceptedExpected -= 1 }
    }
  }

  func forget(_ device: DeviceIndex) {
    state.withLock { state in
      for (copy, isAccepted) in state.expected where copy.device == device {
        state.expected[copy] = nil
        if isAccepted { state.acceptedExpected -= 1 }
      }
    }
  }

  /// No device gets it any more.
  func forget(_ message: MessageNumber) {
    state.withLock { state in
      for (copy, isAccepted) in state.expected where copy.message == message {
        state.expected[copy] = nil
        if isAccepted { state.acceptedExpected -= 1 }
      }
    }
  }

  var owedCount: Int { state.withLock { $0.acceptedExpected } }
  var acceptedCount: Int { state.withLock { $0.accepted } }

  // MARK: - Pushes

  /// Pushes for `device` from now on; of several that come at once the last.
  func pushes(for device: DeviceIndex) -> AsyncStream<Void> {
    let (stream, add) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    state.withLock { $0.sleepers[device] = add }
    return stream
  }

  private func pushed(_ device: DeviceIndex) {
    history.saw(.woken(device))
    state.withLock { $0.sleepers[device] }?.yield()
  }

  // MARK: - Slow readers

  func setSlow(_ isSlow: Bool, at site: String) {
    state.withLock { state in
      if isSlow { state.slowSites.insert(site) } else { state.slowSites.remove(site) }
    }
  }

  func isSlow(_ site: String) -> Bool { state.withLock { $0.slowSites.contains(site) } }

  // MARK: - Requests

  enum Outcome<Value: Sendable>: Sendable {
    case done(Value)
    case refused(Int)
    case unknown
  }

  /// Sends a request, and writes its begin and its end.
  func perform<Value: Sendable>(
    _ call: Call, by device: DeviceIndex, to place: Place, says answer: (Value) -> Reply = { _ in .done },
    _ body: () async throws(RelayClientError) -> Value
  ) async -> Outcome<Value> {
    let operation = history.invoke(call, by: device, to: place)
    do {
      let value = try await body()
      history.write(.answered(operation, answer: answer(value)))
      return .done(value)
    } catch {
      guard let status = error.status, !Self.balancersWords.contains(status) else {
        history.write(.unknown(operation))
        return .unknown
      }
      history.write(.answered(operation, answer: .refused(status: status)))
      if !Self.foreseen.contains(status) { history.saw(.odd("\(place): \(Self.name(of: call)): \(error)")) }
      return .refused(status)
    }
  }

  /// 502 and 504: what became of it at the process it does not know.
  private static let balancersWords: Set<Int> = [502, 504]
  /// 404: a device that was just taken out. 401, 403: of one itself.
  private static let foreseen: Set<Int> = [401, 403, 404, 409, 410, 411, 413, 429, 503]

  private static func name(of call: Call) -> Substring { "\(call)".prefix { $0 != "(" } }
}

/// 64 bits that differ for different texts (FNV-1a).
func shortDigest(_ bytes: some Sequence<UInt8>) -> UInt64 {
  bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
}

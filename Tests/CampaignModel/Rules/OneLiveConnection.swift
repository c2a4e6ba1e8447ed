/// A device has one live connection: of two the older ends within 30 s, and none is taken for the older without a
/// newer.
///
/// While coordination is away, processes cannot know of each other: the 30 s count from the end of the last fault.
package struct OneLiveConnection: Rule {
  package let name = "one live connection a device"
  package private(set) var violations = Violations()

  private struct Attempt {
    let number: ConnectionNumber
    let begun: Moment
    /// nil: no answer so far, or never.
    var opened: Moment?
    var isOpen = false
  }

  /// The last attempts of each device.
  private var attempts: [DeviceIndex: [Attempt]] = [:]
  /// Devices with two open connections, and since when.
  private var doubled: [DeviceIndex: Moment] = [:]
  /// A device that is linked behind it may have its address, and its connection displaces what is left of this one's.
  private var removed: Set<DeviceIndex> = []
  private static let grace = Duration.seconds(30)
  private static let rememberedMax = 16
  /// The relay's word for a connection that a newer one displaced.
  private static let displaced = 1000

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    check(now, trouble)
    switch step {
    case .invoked(let invocation):
      if case .remove(let device) = invocation.call { removed.insert(device) }
      guard case .connect(let number) = invocation.call else { return }
      remember(Attempt(number: number, begun: now), of: invocation.device)
    case .answered(let invocation, .done):
      guard case .connect(let number) = invocation.call else { return }
      update(number, of: invocation.device) { ($0.opened, $0.isOpen) = (now, true) }
      count(invocation.device, now)
    case .answered(let invocation, .refused):
      // It never stood, and displaces nobody.
      guard case .connect(let number) = invocation.call else { return }
      attempts[invocation.device]?.removeAll { $0.number == number }
    case .saw(.ended(let number, let device, let code)):
      if code == Self.displaced, !removed.contains(device), !isExplained(number, device) {
        violations.add("\(now): \(number) of \(device) was ended as the older one, and there is no newer one")
      }
      update(number, of: device) { $0.isOpen = false }
      count(device, now)
    default: break
    }
  }

  package mutating func finish(at end: Moment, _ trouble: Trouble) { check(end, trouble) }

  private mutating func remember(_ attempt: Attempt, of device: DeviceIndex) {
    attempts[device, default: []].append(attempt)
    guard let known = attempts[device], known.count > Self.rememberedMax,
      let oldest = known.firstIndex(where: { !$0.isOpen })
    else { return }
    attempts[device]?.remove(at: oldest)
  }

  private mutating func update(_ number: ConnectionNumber, of device: DeviceIndex, _ change: (inout Attempt) -> Void) {
    guard let index = attempts[device]?.firstIndex(where: { $0.number == number }) else { return }
    if var attempt = attempts[device]?[index] {
      change(&attempt)
      attempts[device]?[index] = attempt
    }
  }

  /// Whether another attempt may have been opened after this one.
  private func isExplained(_ number: ConnectionNumber, _ device: DeviceIndex) -> Bool {
    guard let known = attempts[device], let ended = known.first(where: { $0.number == number }) else { return false }
    return known.contains { other in
      guard other.number != number else { return false }
      return other.opened.map { $0 > ended.begun } ?? true
    }
  }

  private mutating func count(_ device: DeviceIndex, _ now: Moment) {
    let isDouble = (attempts[device] ?? []).count { $0.isOpen } > 1
    if !isDouble { doubled[device] = nil } else if doubled[device] == nil { doubled[device] = now }
  }

  private mutating func check(_ now: Moment, _ trouble: Trouble) {
    guard !doubled.isEmpty, let quietSince = trouble.quietSince else { return }
    for (device, since) in doubled.sorted(by: { $0.key < $1.key }) where now - max(since, quietSince) > Self.grace {
      violations.add("\(now): \(device) has had two live connections since \(since)")
      doubled[device] = nil
    }
  }
}

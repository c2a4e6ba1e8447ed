/// No device stays deaf, unwoken or shut out for longer than 30 s when no fault is in effect.
///
/// Deaf: connected, owed an accepted message, and nothing comes. A slow reader is not deaf while something comes.
/// Unwoken: not connected, owed something, to be woken by push, and not woken. Shut out: it tries to connect, and
/// cannot.
package struct NobodyDeaf: Rule {
  package let name = "nobody deaf, unwoken or shut out"
  package private(set) var violations = Violations()

  private struct Listener {
    var open: Set<ConnectionNumber> = []
    /// Since when it is connected, or tries to.
    var connectedSince: Moment?
    var tryingSince: Moment?
    var isAway = false
    var isWokenByPush = false
    /// The last delivery or push.
    var lastWord = Moment.begin
    /// Accepted and not delivered.
    var owed: [MessageNumber: Moment] = [:]
  }

  private var listeners: [DeviceIndex: Listener] = [:]
  private var removed: Set<DeviceIndex> = []
  /// Attempts that were delivered before their answer came.
  private var arrivedFirst: Set<Copy> = []
  private var nextCheck = Moment.begin
  private static let patience = Duration.seconds(30)
  private static let pause = Duration.seconds(1)

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    check(now, trouble)
    switch step {
    case .invoked(let invocation):
      switch invocation.call {
      case .connect: tries(invocation.device, now)
      case .remove(let device):
        removed.insert(device)
        listeners[device] = nil
      default: break
      }
    case .answered(let invocation, .done):
      switch invocation.call {
      case .connect(let number): connected(invocation.device, number, now)
      case .submit(let message, let recipients, _): accepted(message, recipients, now)
      default: break
      }
    case .saw(let sight): take(sight, now)
    default: break
    }
  }

  package mutating func finish(at end: Moment, _ trouble: Trouble) {
    nextCheck = end
    check(end, trouble)
  }

  private mutating func take(_ sight: Sight, _ now: Moment) {
    switch sight {
    case .delivered(let message, _, let device, _, _):
      guard !removed.contains(device) else { return }
      if listeners[device, default: Listener()].owed.removeValue(forKey: message) == nil {
        arrivedFirst.insert(Copy(message, device))
      }
      listeners[device]?.lastWord = now
    case .ended(let number, let device, _):
      listeners[device]?.open.remove(number)
      if listeners[device]?.open.isEmpty == true { listeners[device]?.connectedSince = nil }
    case .away(let device):
      listeners[device]?.isAway = true
      listeners[device]?.tryingSince = nil
    case .undeliverable(let message, _):
      for device in Array(listeners.keys) { listeners[device]?.owed[message] = nil }
    case .wakes(let device): listeners[device, default: Listener()].isWokenByPush = true
    case .woken(let device): listeners[device]?.lastWord = now
    default: break
    }
  }

  private mutating func tries(_ device: DeviceIndex, _ now: Moment) {
    guard !removed.contains(device) else { return }
    listeners[device, default: Listener()].isAway = false
    if listeners[device]?.connectedSince == nil, listeners[device]?.tryingSince == nil {
      listeners[device]?.tryingSince = now
    }
  }

  private mutating func connected(_ device: DeviceIndex, _ number: ConnectionNumber, _ now: Moment) {
    guard !removed.contains(device) else { return }
    listeners[device, default: Listener()].open.insert(number)
    if listeners[device]?.connectedSince == nil { listeners[device]?.connectedSince = now }
    listeners[device]?.tryingSince = nil
  }

  private mutating func accepted(_ message: MessageNumber, _ recipients: [DeviceIndex], _ now: Moment) {
    for device in recipients where !removed.contains(device) {
      if arrivedFirst.remove(Copy(message, device)) == nil {
        listeners[device, default: Listener()].owed[message] = now
      }
    }
  }

  private mutating func check(_ now: Moment, _ trouble: Trouble) {
    guard now >= nextCheck else { return }
    nextCheck = now + Self.pause
    guard trouble.isQuiet(for: Self.patience, at: now), let quietSince = trouble.quietSince else { return }
    for (device, listener) in listeners.sorted(by: { $0.key < $1.key }) {
      if let trying = listener.tryingSince, now - max(trying, quietSince) > Self.patience {
        violations.add("\(now): \(device) cannot connect since \(trying)")
        listeners[device]?.tryingSince = now
      }
      guard !listener.owed.isEmpty else { continue }
      let oldest = listener.owed.min { ($0.value, $0.key) < ($1.value, $1.key) }
      guard let oldest else { continue }
      let begin = max(oldest.value, listener.lastWord, quietSince)
      if let connectedSince = listener.connectedSince {
        guard now - max(begin, connectedSince) > Self.patience else { continue }
        violations.add("\(now): \(device) is deaf: connected since \(connectedSince), and \(oldest.key) does not come")
      } else if listener.isWokenByPush, listener.isAway {
        guard now - begin > Self.patience else { continue }
        violations.add("\(now): \(device) is not woken for \(oldest.key)")
      } else {
        continue
      }
      listeners[device]?.lastWord = now
    }
  }
}

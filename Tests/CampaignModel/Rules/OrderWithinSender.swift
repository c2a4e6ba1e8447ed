/// Take two messages of one sender for one device. If one was accepted before the other was submitted, it is
/// delivered first. Repetitions of earlier deliveries do not count. Between operators, in trouble or if the peer was
/// slow, a message may be overtaken by one that was submitted shortly behind it (docs/federation.md, "The outbox").
/// A message that its sender is told to be undeliverable stands before no other, since nobody gets it. The word may
/// come behind later messages.
package struct OrderWithinSender: Rule {
  package let name = "order within a sender"
  package private(set) var violations = Violations()

  private struct Lane: Hashable {
    let sender: DeviceIndex
    let recipient: DeviceIndex
  }

  private struct Pending {
    let message: MessageNumber
    /// Before the first attempt.
    let begun: Moment
    var accepted: Moment?
    /// How much later than that the other must have been submitted to have to wait.
    var slack = Duration.zero
  }

  private struct Overtaken: Hashable {
    let sender: DeviceIndex
    let message: MessageNumber
  }

  /// Messages that others overtook, with the number and the text of each violation. Their senders may still be told
  /// that they are undeliverable.
  private var suspects: [Overtaken: [(number: Int, text: String)]] = [:]
  private var lastSuspect = 0
  /// Not delivered so far.
  private var lanes: [Lane: [Pending]] = [:]
  /// Delivered before their answer came: their sender may try them again.
  private var arrivedFirst: Set<Copy> = []
  private var removed: Set<DeviceIndex> = []
  /// Operators, by their devices.
  private var homes: [DeviceIndex: String] = [:]
  /// A process learns only after two seconds that another one holds a message for a peer.
  private static let slackWhereHeld = Duration.seconds(3)
  /// On a machine that has too much to do, a message that took longer to be accepted may be held without any fault.
  private static let slowAnswer = Duration.seconds(1)
  private static let afterTrouble = Duration.seconds(10)

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .invoked(let invocation):
      switch invocation.call {
      case .submit(let message, let recipients, _): begin(message, recipients, invocation)
      case .remove(let device): removed.insert(device)
      case .register: homes[invocation.device] = invocation.place.site
      default: break
      }
    case .answered(let invocation, .done):
      guard case .submit(let message, let recipients, _) = invocation.call else { return }
      for recipient in recipients {
        arrivedFirst.remove(Copy(message, recipient))
        let crosses = homes[recipient] != homes[invocation.device]
        let mayBeHeld = !trouble.isQuiet(for: Self.afterTrouble, at: now) || now - invocation.at > Self.slowAnswer
        let slack = crosses && mayBeHeld ? Self.slackWhereHeld : .zero
        accept(message, Lane(sender: invocation.device, recipient: recipient), now, slack)
      }
    case .saw(.delivered(let message, let sender?, let device, _, _)):
      deliver(message, Lane(sender: sender, recipient: device), now)
    case .saw(.undeliverable(let message, let sender)):
      for lane in Array(lanes.keys) where lane.sender == sender { lanes[lane]?.removeAll { $0.message == message } }
      suspects[Overtaken(sender: sender, message: message)] = nil
    default: break
    }
  }

  private mutating func begin(_ message: MessageNumber, _ recipients: [DeviceIndex], _ invocation: Invocation) {
    for recipient in recipients
    where !removed.contains(recipient) && !arrivedFirst.contains(Copy(message, recipient)) {
      let lane = Lane(sender: invocation.device, recipient: recipient)
      guard lanes[lane]?.contains(where: { $0.message == message }) != true else { continue }
      lanes[lane, default: []].append(Pending(message: message, begun: invocation.at))
    }
  }

  private mutating func accept(_ message: MessageNumber, _ lane: Lane, _ now: Moment, _ slack: Duration) {
    guard let index = lanes[lane]?.firstIndex(where: { $0.message == message }) else { return }
    guard lanes[lane]?[index].accepted == nil else { return }
    lanes[lane]?[index].accepted = now
    lanes[lane]?[index].slack = slack
  }

  private mutating func deliver(_ message: MessageNumber, _ lane: Lane, _ now: Moment) {
    guard let index = lanes[lane]?.firstIndex(where: { $0.message == message }),
      let delivered = lanes[lane]?.remove(at: index)
    else { return }
    if delivered.accepted == nil { arrivedFirst.insert(Copy(message, lane.recipient)) }
    let overtaken = lanes[lane, default: []].filter { pending in
      pending.accepted.map { $0 + pending.slack < delivered.begun } ?? false
    }
    if lanes[lane]?.isEmpty == true { lanes[lane] = nil }
    for pending in overtaken {
      lastSuspect += 1
      let text =
        "\(now): \(lane.recipient) got \(message) of \(lane.sender) before \(pending.message), which was accepted "
        + "before the former was submitted"
      suspects[Overtaken(sender: lane.sender, message: pending.message), default: []].append((lastSuspect, text))
    }
  }

  package mutating func finish(at end: Moment, _ trouble: Trouble) {
    for suspect in suspects.values.joined().sorted(by: { $0.number < $1.number }) { violations.add(suspect.text) }
  }
}

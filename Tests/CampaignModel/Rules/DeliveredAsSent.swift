/// A delivered message was submitted by the sender that the relay names, for this device, with this body. It comes
/// over one connection once.
///
/// There is one exception. If a session of PostgreSQL is ended while its commit waits for the standby, all see what it
/// has committed, though the standby may never get it. The client is told that the message was not stored, and tries
/// again. Meanwhile the message may be delivered. If the standby takes over without it, the next try stores it anew.
package struct DeliveredAsSent: Rule {
  package let name = "delivered is what was sent, once a connection"
  package private(set) var violations = Violations()

  private struct Submission {
    let sender: DeviceIndex
    let digest: UInt64
    let recipients: [DeviceIndex]
  }

  private var submissions: [MessageNumber: Submission] = [:]
  /// The messages delivered over connections that stand, and when.
  private var delivered: [ConnectionNumber: [MessageNumber: Moment]] = [:]
  private var accepted: [MessageNumber: Moment] = [:]
  /// Operators, by their devices.
  private var homes: [DeviceIndex: String] = [:]

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .invoked(let invocation):
      switch invocation.call {
      case .submit(let message, let recipients, let digest):
        submissions[message] = Submission(sender: invocation.device, digest: digest, recipients: recipients)
      case .register: homes[invocation.device] = invocation.place.site
      default: break
      }
    case .answered(let invocation, .done):
      guard case .submit(let message, _, _) = invocation.call else { return }
      accepted[message] = accepted[message] ?? now
    case .saw(.delivered(let message, let sender, let device, let digest, let connection)):
      let before = delivered[connection, default: [:]].updateValue(now, forKey: message)
      if let before, !mayComeAgain(message, device, since: before, trouble) {
        violations.add("\(now): \(Copy(message, device)) came over \(connection) twice")
      }
      check(message, sender, device, digest, now)
    case .saw(.ended(let connection, _, _)): delivered[connection] = nil
    default: break
    }
  }

  /// Whether a standby of the recipient's operator took over since `before`, and the message was not accepted by then. A
  /// message of another operator is accepted there, before this one has it.
  private func mayComeAgain(
    _ message: MessageNumber, _ device: DeviceIndex, since before: Moment, _ trouble: Trouble
  ) -> Bool {
    let home = homes[device]
    let isForeign = submissions[message].map { homes[$0.sender] != home } ?? false
    return trouble.takeOvers.contains { takeOver in
      guard takeOver.site == home, takeOver.ended.map({ before < $0 }) ?? true else { return false }
      return isForeign || accepted[message].map { $0 > takeOver.began } ?? true
    }
  }

  private mutating func check(
    _ message: MessageNumber, _ sender: DeviceIndex?, _ device: DeviceIndex, _ digest: UInt64, _ now: Moment
  ) {
    guard let submission = submissions[message] else {
      return violations.add("\(now): \(Copy(message, device)) was delivered and never submitted")
    }
    guard submission.recipients.contains(device) else {
      return violations.add("\(now): \(Copy(message, device)) was submitted for \(submission.recipients)")
    }
    if submission.sender != sender {
      violations.add("\(now): \(Copy(message, device)) names another sender than \(submission.sender)")
    }
    if submission.digest != digest { violations.add("\(now): \(Copy(message, device)) has another body") }
  }
}

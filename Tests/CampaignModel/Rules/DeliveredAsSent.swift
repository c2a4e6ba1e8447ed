/// A delivered message was submitted by the sender that the relay names, for this device, with this body. It comes
/// over one connection once.
package struct DeliveredAsSent: Rule {
  package let name = "delivered is what was sent, once a connection"
  package private(set) var violations = Violations()

  private struct Submission {
    let sender: DeviceIndex
    let digest: UInt64
    let recipients: [DeviceIndex]
  }

  private var submissions: [MessageNumber: Submission] = [:]
  /// The messages delivered over connections that stand.
  private var delivered: [ConnectionNumber: Set<MessageNumber>] = [:]

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .invoked(let invocation):
      guard case .submit(let message, let recipients, let digest) = invocation.call else { return }
      submissions[message] = Submission(sender: invocation.device, digest: digest, recipients: recipients)
    case .saw(.delivered(let message, let sender, let device, let digest, let connection)):
      if !delivered[connection, default: []].insert(message).inserted {
        violations.add("\(now): \(Copy(message, device)) came over \(connection) twice")
      }
      check(message, sender, device, digest, now)
    case .saw(.ended(let connection, _, _)): delivered[connection] = nil
    default: break
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

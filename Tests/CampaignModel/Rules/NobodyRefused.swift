/// A submission that is made when no fault has been in effect for 30 s is not answered with 5xx: the relay finds its
/// way back by itself. A refusal by a limit, or for the recipient's devices, is no fault of the relay's.
package struct NobodyRefused: Rule {
  package let name = "nobody is refused when all is whole"
  package private(set) var violations = Violations()

  /// Made when all had been whole for long.
  private var open: Set<OperationNumber> = []
  private static let patience = Duration.seconds(30)

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .invoked(let invocation):
      guard case .submit = invocation.call, trouble.isQuiet(for: Self.patience, at: now) else { return }
      open.insert(invocation.operation)
    case .answered(let invocation, let reply):
      guard open.remove(invocation.operation) != nil, case .refused(let status) = reply, status >= 500,
        trouble.isQuiet(for: Self.patience, at: now)
      else { return }
      violations.add("\(now): \(invocation.operation) at \(invocation.place) was refused with \(status)")
    case .unknown(let invocation): open.remove(invocation.operation)
    case .saw: break
    }
  }
}

/// A one-time key is handed out once, whatever was restored or promoted, and only if its device uploaded it.
///
/// A draw without an answer may have taken a key or not: nobody knows which. An upload without an answer may have
/// happened.
package struct KeysHandedOutOnce: Rule {
  package let name = "one-time keys are handed out once"
  package private(set) var violations = Violations()

  private var uploaded: [KeyDigest: DeviceIndex] = [:]
  private var handedOut: Set<KeyDigest> = []

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .invoked(let invocation):
      guard case .upload(let keys, let lastResort) = invocation.call else { return }
      for key in keys + [lastResort] { uploaded[key] = invocation.device }
    case .answered(let invocation, .keys(let keys)):
      for drawn in keys { check(drawn, by: invocation.device, now) }
    default: break
    }
  }

  private mutating func check(_ drawn: DrawnKey, by device: DeviceIndex, _ now: Moment) {
    if uploaded[drawn.key] != drawn.device {
      violations.add("\(now): \(device) was handed a key of \(drawn.device) that it never uploaded")
    }
    if !drawn.isLastResort, !handedOut.insert(drawn.key).inserted {
      violations.add("\(now): \(device) was handed a one-time key of \(drawn.device) that somebody has already")
    }
  }
}

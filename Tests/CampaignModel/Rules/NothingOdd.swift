/// No process ends by itself, and no answer is one that no document allows for, whatever befalls the stores.
package struct NothingOdd: Rule {
  package let name = "no process dies, no answer is odd"
  package private(set) var violations = Violations()

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .saw(.died(let place, let how)): violations.add("\(now): \(place) died: \(how)")
    case .saw(.odd(let what)): violations.add("\(now): \(what)")
    default: break
    }
  }
}

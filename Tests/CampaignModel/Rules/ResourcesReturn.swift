/// A process at rest has, after the last fault, the memory and descriptors that it had before the first.
///
/// An allocator does not give all of it back, and a process that was never started anew has served more: half as much
/// again and 64 MiB, and 32 descriptors, are allowed on top.
package struct ResourcesReturn: Rule {
  package let name = "memory and descriptors return"
  package private(set) var violations = Violations()

  private struct Size {
    let bytes: Int
    let descriptors: Int
  }
  private var before: [Place: Size] = [:]
  private static let bytesOver = 64 << 20
  private static let descriptorsOver = 32

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    guard case .saw(.measured(let place, let bytes, let descriptors, let isFinal)) = step else { return }
    guard isFinal else {
      before[place] = Size(bytes: bytes, descriptors: descriptors)
      return
    }
    guard let size = before[place] else {
      return violations.add("\(place) was not measured before the first fault")
    }
    if bytes > size.bytes + size.bytes / 2 + Self.bytesOver {
      violations.add("\(place) has \(bytes >> 20) MiB, and had \(size.bytes >> 20) MiB")
    }
    if descriptors > size.descriptors + Self.descriptorsOver {
      violations.add("\(place) has \(descriptors) descriptors, and had \(size.descriptors)")
    }
  }
}

/// Which faults happen when: all that a campaign must be told to be repeated.
package struct Schedule: Codable, Equatable, Sendable {
  package struct Step: Codable, Hashable, Sendable {
    /// Milliseconds since the begin.
    package let at: Int
    /// Milliseconds until the fault is taken back.
    package let lasting: Int
    package let fault: Fault

    package init(at: Int, lasting: Int, _ fault: Fault) {
      self.at = at
      self.lasting = lasting
      self.fault = fault
    }
    package var end: Int { at + lasting }
  }

  /// The seed of the devices' choices too.
  package let seed: UInt64
  /// How long messages are sent; no fault ends later.
  package let seconds: Int
  /// Ascending by begin.
  package let steps: [Step]

  package init(seed: UInt64, seconds: Int, _ steps: [Step]) {
    self.seed = seed
    self.seconds = seconds
    self.steps = steps.sorted { ($0.at, $0.end) < ($1.at, $1.end) }
  }

  package func with(_ steps: [Step]) -> Schedule { Schedule(seed: seed, seconds: seconds, steps) }

  /// The same steps, and no time behind the last.
  package var trimmed: Schedule {
    let end = steps.map(\.end).max() ?? 0
    return Schedule(seed: seed, seconds: min(seconds, end / 1000 + 1), steps)
  }
}

extension Schedule: CustomStringConvertible {
  /// For people, one line a fault.
  package var description: String {
    (["seed \(seed), \(seconds) s, \(steps.count) faults"]
      + steps.map { "  \(Moment(rawValue: Int64($0.at) * 1000)), for \($0.lasting) ms: \($0.fault)" })
      .joined(separator: "\n")
  }

  /// A test that runs it again, as Swift has it.
  /// - Parameter rule: what it broke.
  package func test(breaking rule: String) -> String {
    let lines = steps.map { "        .init(at: \($0.at), lasting: \($0.lasting), \($0.fault.source)),\n" }
    return """
      @Test func `\(rule): seed \(seed), \(steps.count) faults`() async throws {
        try await Campaign.expectClean(
          Schedule(
            seed: \(seed), seconds: \(seconds),
            [
      \(lines.joined())      ]))
      }
      """
  }
}

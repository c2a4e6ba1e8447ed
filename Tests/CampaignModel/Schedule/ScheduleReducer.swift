/// Cuts a schedule down to the shortest that still breaks a rule (delta debugging: Zeller and Hildebrandt's ddmin).
package struct ScheduleReducer: Sendable {
  /// Runs cost minutes each.
  package var runsMax: Int

  package init(runsMax: Int = 60) { self.runsMax = runsMax }

  package struct Reduced: Sendable {
    package let schedule: Schedule
    package let runs: Int
    /// No single fault can be left out any more, as far as was tried.
    package let isShortest: Bool
  }

  /// - Parameter breaks: whether a schedule breaks the rule. It may be asked `runsMax` times. It should try rare
  ///   events more than once.
  package func reduce(
    _ schedule: Schedule, isolation: isolated (any Actor)? = #isolation,
    breaks: (Schedule) async throws -> Bool
  ) async rethrows -> Reduced {
    var steps = schedule.steps
    var pieces = 2
    var runs = 0
    while steps.count >= 2, runs < runsMax {
      let size = (steps.count + pieces - 1) / pieces
      var isSmaller = false
      for begin in stride(from: 0, to: steps.count, by: size) where runs < runsMax {
        var rest = steps
        rest.removeSubrange(begin..<min(begin + size, steps.count))
        runs += 1
        if try await breaks(schedule.with(rest).trimmed) {
          (steps, pieces, isSmaller) = (rest, max(pieces - 1, 2), true)
          break
        }
      }
      if isSmaller { continue }
      if size == 1 { return Reduced(schedule: schedule.with(steps).trimmed, runs: runs, isShortest: runs < runsMax) }
      pieces = min(pieces * 2, steps.count)
    }
    return Reduced(schedule: schedule.with(steps).trimmed, runs: runs, isShortest: steps.count <= 1)
  }
}

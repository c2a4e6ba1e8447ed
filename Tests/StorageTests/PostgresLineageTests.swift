import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct PostgresLineageTests {
  @Test func `the newer timeline of a cluster counts, and another cluster begins anew`() {
    let first = PostgresLineage(system: 7, timeline: 1)
    let second = PostgresLineage(system: 7, timeline: 2)
    let other = PostgresLineage(system: 8, timeline: 1)
    #expect(first.followed(by: second) == second)
    #expect(second.followed(by: first) == second)
    #expect(second.followed(by: other) == other)
  }
}

import RelayCore
import TestTags
import Testing

@Suite(.tags(.unit)) struct SchemaReturnTests {
  private static func way(_ steps: (usableFrom: Int, isApplied: Bool)...) -> SchemaReturn {
    SchemaReturn(
      steps.enumerated().map { index, step in
        MigrationStatus(
          version: index + 1, name: "step", applied: step.isApplied ? Timestamp(millis: 1) : nil,
          usableFrom: step.usableFrom)
      })
  }

  @Test func `a new store has nothing to go back to`() {
    #expect(Self.way((1, false)).words.contains("The store is new"))
  }

  @Test func `builds that know the step which every step allows can serve a store that is up to date`() {
    #expect(Self.way((1, true), (1, true)).words.contains("builds that know step 1 can serve this store"))
    #expect(Self.way((1, true), (2, true)).words.contains("builds that know step 2 can serve this store"))
  }

  @Test func `behind steps that only add, going back is possible`() {
    let way = Self.way((1, true), (1, false))
    #expect(way.isPossible && way.words.contains("Going back is possible: builds that know step 1"))
  }

  @Test func `behind a step that takes away, a backup is the only way back`() {
    let way = Self.way((1, true), (2, false))
    #expect(!way.isPossible && way.words.contains("Going back is not possible behind these steps"))
    #expect(way.words.contains("must know step 2 then, and the store is at step 1"))
  }
}

import TestSupport
import TestTags
import Testing

@testable import RelayWork

@Suite(.tags(.unit)) struct BlockingWorkTests {
  @Test func `work runs to its end, with its value or its failure`() async throws {
    #expect(await BlockingWork.run { 7 } == 7)
    await #expect(throws: TestFailure.self) {
      try await BlockingWork.run { () throws(TestFailure) -> Int in throw TestFailure("no") }
    }
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await BlockingWork.run { 7 }
    }
    #expect(await task.value == 7)
    #expect(await BlockingThreads(2).run { 7 } == 7)
  }
}

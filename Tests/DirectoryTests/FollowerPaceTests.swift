import RelayCore
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct FollowerPaceTests {
  @Test(arguments: [1, 8, 64])
  func `parts together compare as often as one process with the whole directory`(count: Int) {
    let pace = DirectoryFollower.Pace()
    let mean = pace.check * count
    let pauses = DirectoryPartition.all(count).map(pace.checkPause)
    #expect(pauses.allSatisfy { mean * 0.5 <= $0 && $0 <= mean * 1.5 })
  }
}

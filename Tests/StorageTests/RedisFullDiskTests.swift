import TestSupport
import TestTags
import Testing

@testable import Storage

/// A Redis that keeps its data on a disk that is full answers, and takes no writes.
@Suite(.tags(.stores)) struct RedisFullDiskTests {
  @Test(.enabled(if: TestDisk.isPossible, "a file system of its own takes root"))
  func `it is done without and told of, and used again as soon as there is room`() async throws {
    try await RedisServer.with(hasOwnDisk: true) { server in
      try await withRedis(server) { coordination in
        try await server.fillDisk()
        try await eventually("it is found out") {
          _ = await coordination[0].wake([try Sample.address(1)])
          return await coordination[0].degradation()?.contains("(MISCONF)") == true
        }
        #expect(!coordination[0].isAtReplica)
        try server.freeDisk()
        try await eventually("it is used again") { await coordination[0].degradation() == nil }
      }
    }
  }
}

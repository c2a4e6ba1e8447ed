import CampaignModel
import Foundation
import TestTags
import Testing

/// A history is written by many, and read as it was written.
@Suite(.tags(.unit)) struct HistoryTests {
  private static func withFile<Result>(_ body: (String) async throws -> Result) async throws -> Result {
    let path = FileManager.default.temporaryDirectory.appending(path: "history-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: path) }  // A leftover there hurts nobody.
    return try await body(path)
  }

  @Test func `entries that many wrote at once are read in the order of their times`() async throws {
    try await Self.withFile { path in
      let writer = try HistoryWriter(path: path)
      await withTaskGroup(of: Void.self) { group in
        for device in 0..<8 {
          group.addTask {
            for _ in 0..<500 {
              let operation = writer.invoke(.draw, by: DeviceIndex(device), to: Place("alpha", 1))
              writer.write(.answered(operation, answer: .refused(status: 404)))
            }
          }
        }
      }
      try writer.close()
      var events: [Event] = []
      try HistoryReader(path: path).forEach { events.append($0) }
      #expect(events.count == 8000)
      #expect(zip(events, events.dropFirst()).allSatisfy { $0.at <= $1.at })
      #expect(try Checker.check(historyAt: path).allSatisfy { $0.isKept })
    }
  }

  @Test func `every kind of line is read as it was written`() async throws {
    let facts: [Fact] = [
      .invoked(
        OperationNumber(1),
        call: .submit(message: MessageNumber(1), recipients: [DeviceIndex(1)], digest: .max),
        by: DeviceIndex(0), to: Place("beta")),
      .answered(OperationNumber(1), answer: .keys([DrawnKey(of: DeviceIndex(3), KeyDigest(.max), isLastResort: true)])),
      .unknown(OperationNumber(2)),
      .saw(.ended(ConnectionNumber(3), of: DeviceIndex(1), code: nil)),
      .saw(.faultBegan(1, .linkCutOneWay, at: "alpha")),
      .saw(.limit(bucket: "prekeys", size: 5, perMinute: 0.5, processes: 3)),
    ]
    try await Self.withFile { path in
      let writer = try HistoryWriter(path: path)
      for fact in facts { writer.write(fact) }
      try writer.close()
      var read: [Fact] = []
      try HistoryReader(path: path).forEach { read.append($0.fact) }
      #expect(read == facts)
    }
  }

  @Test(arguments: ["{}\n", "not JSON\n", "{\"at\":1"])
  func `a damaged history is told by its line`(_ text: String) async throws {
    try await Self.withFile { path in
      try Data(text.utf8).write(to: URL(filePath: path))
      let error = #expect(throws: HistoryReader.Malformed.self) { try Checker.check(historyAt: path) }
      #expect(error?.line == 1)
    }
  }

  @Test func `figures tell of messages, faults, recovery and rolling restarts`() {
    var story = Story()
    story.accept(1)
    story.deliver(1)
    story.fault(.redisRestarted)
    story.answer(story.submit(2), .refused(status: 503))
    story.wait(100)
    story.saw(.faultBegan(9, .rollingRestart, at: "alpha"))
    story.accept(3)
    story.write(.unknown(story.submit(4)))
    story.saw(.faultEnded(9))
    story.wait(20)
    story.accept(2)
    var figures = Figures()
    for event in story.events { figures.take(event) }
    #expect(figures.messagesAccepted == 3 && figures.submissions == 5 && figures.deliveries == 1)
    #expect(figures.refused == 1 && figures.unanswered == 1)
    #expect(figures.faults == ["redisRestarted": 1, "rollingRestart": 1])
    #expect(figures.failedInRollingRestart == 1 && figures.requestsInRollingRestart == 2)
    // The refusal came two seconds after the end; after the second fault nothing failed.
    #expect(figures.recoveryMillis == [2000, 0])
    #expect(figures.recovery(0.99) == 2000)
  }
}

import RelayCore
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct OutboxRowTests {
  @Test func `a submission survives its row`() throws {
    for coverage in [Submission.Coverage.activeDevices, .masterDevice] {
      let message = try Sample.outgoing(1, coverage: coverage)
      let row = OutboxRow(message)
      let read = OutboxRow.submission(
        bundle: row.bundle, to: message.submission.destination, coversMasterOnly: row.coversMasterOnly,
        accepted: Sample.noon)
      #expect(read == message.submission)
    }
  }

  @Test func `a damaged row is a submission that no peer takes, and still says whose it is`() throws {
    let message = try Sample.outgoing(1)
    var bundle = OutboxRow(message).bundle
    bundle[bundle.count / 2] = 0
    for damaged in [bundle, [], Array(bundle.prefix(20))] {
      let read = OutboxRow.submission(
        bundle: damaged, to: message.submission.destination, coversMasterOnly: false, accepted: Sample.noon)
      #expect(read.messages.isEmpty)
      #expect(read.destination == message.submission.destination)
      #expect(read.timestamp == Sample.noon)
    }
  }
}

import ChildProcesses
import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Processes whose clock is far ahead of the last time that their store has seen.
@Suite(.tags(.processes)) struct ClockProcessTests {
  private struct ClockState: Decodable {
    let isBelieved: Bool
    let leadSeconds: Int64
  }
  private struct Diagnosis: Decodable {
    let check: String
    let outcome: String
    let remedy: String?
  }

  /// By a clock of the past: what lies in the store is 40 days old then, for whoever has the present one.
  private static func store(of site: RelayOperator, daysAgo: Int = 40) throws -> SQLiteStorage {
    let past = Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000) - Int64(daysAgo) * Timestamp.millisPerDay)
    return try SQLiteStorage(path: site.folder + "/relay.sqlite", clock: WallClock { past })
  }

  private static func waiting(at site: RelayOperator, _ mailbox: DeviceAddress) async throws -> Int {
    let storage = try store(of: site)
    let count = try await storage.pending(in: mailbox, after: 0, limit: 10).count
    await storage.close()
    return count
  }

  private static func state(at site: RelayOperator, _ options: String...) async throws -> (Int32?, ClockState) {
    let result = try await site.run(["storage", "clock", "--json"] + options)
    let code: Int32? = if case .code(let code) = result.exit { code } else { nil }
    return (code, try JSONDecoder().decode(ClockState.self, from: Data(result.output.utf8)))
  }

  @Test func `a clock 40 days ahead removes nothing, and everybody is told, until the operator confirms`() async throws
  {
    try await RelayOperator.with { site in
      let mailbox = DeviceAddress(try #require(AccountNumber(e164: "+14155550101")), .master)
      let source = DeviceAddress(try #require(AccountNumber(e164: "+14155550102")), .master)
      let storage = try Self.store(of: site)
      try await storage.migrate { _ in }
      _ = try await storage.maintain(RetentionTerms())
      let fingerprint = try #require(Fingerprint(bytes: [UInt8](repeating: 7, count: 16)))
      try await storage.append([
        Envelope(
          destination: mailbox, type: .ciphertext, source: source, relay: nil, timestamp: Timestamp(millis: 1),
          message: [1], content: nil, fingerprint: fingerprint)
      ])
      await storage.close()

      let relay = try await site.serve()
      #expect(relay.log().contains("clock is ahead and not believed"))
      #expect(relay.log().contains("relay storage clock --accept"))
      let lead = try await relay.ask("/metrics").text.split(separator: "\n").filter {
        $0.hasPrefix("relay_clock_lead_seconds{") && !$0.hasSuffix(" 0")
      }
      #expect(lead.count == 2, "the store's, which is the process's here")
      #expect(try await Self.waiting(at: site, mailbox) == 1)
      let before = try await Self.state(at: site)
      #expect(before.0 == 1 && !before.1.isBelieved && before.1.leadSeconds > 39 * 86_400)
      let doctor = try await site.run(["doctor", "--json"])
      let seen = try JSONDecoder().decode([Diagnosis].self, from: Data(doctor.output.utf8)).filter {
        $0.check == "seen"
      }
      #expect(!seen.isEmpty && seen.allSatisfy { $0.outcome == "fail" && $0.remedy?.contains("--accept") == true })
      #expect(try await site.run(["storage", "clock"]).output.contains("not believed"))

      let accepted = try await Self.state(at: site, "--accept")
      #expect(accepted.0 == 0 && accepted.1.isBelieved)
      #expect(try await Self.state(at: site).0 == 0)
      #expect(await relay.terminate() == .code(0))
      let next = try await site.serve()
      #expect(!next.log().contains("not believed"))
      #expect(try await Self.waiting(at: site, mailbox) == 1, "removal goes on by a day in a run")
      #expect(await next.terminate() == .code(0))
    }
  }
}

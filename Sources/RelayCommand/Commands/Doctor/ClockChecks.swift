import RelayCore
import Storage

/// This host's clock against those of the stores; a peer's is compared on the way to it.
struct ClockChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] {
    [
      DoctorCheck(group: .clock, name: "postgresql") {
        guard let postgres = site.storage as? PostgresStorage else {
          return [.skipped("the store has no clock of its own")]
        }
        return [
          await Self.compare {
            // The checks of the storage report why it does not answer.
            try? await postgres.diagnose().time
          }
        ]
      },
      DoctorCheck(group: .clock, name: "redis") {
        guard site.redis != nil else { return [.skipped("no Redis is configured")] }
        // Connected before the clock is asked for: only the question itself is timed.
        _ = await site.redisAnswer()
        return [await Self.compare { await site.redis?.diagnose()?.time }]
      },
      DoctorCheck(group: .clock, name: "seen") { await seen() },
    ]
  }

  /// Against the last time that the relays saw: what removes by age goes by it.
  private func seen() async -> [Finding] {
    guard let storage = await site.usableStorage() else { return [DoctorSite.withoutStore] }
    do {
      let reading = try await storage.clockReading()
      let clocks = [("the store's clock", reading.now), ("this host's clock", Timestamp.now)]
      let faults = clocks.compactMap { whose, clock in reading.time.fault(of: clock, whose).map { ($0, clock) } }
      guard !faults.isEmpty else { return [.ok("the clocks are believed: what is past its time is removed")] }
      return faults.map { fault, clock in
        reading.time.believes(clock)
          ? .warned(fault.text, remedy: fault.remedy) : .failed(fault.text, remedy: fault.remedy)
      }
    } catch {
      return [DoctorSite.withoutStore]
    }
  }

  private static func compare(_ ask: () async -> Timestamp?) async -> Finding {
    _ = await ask()
    let start = Timestamp.now
    guard let theirs = await ask() else { return .skipped("it does not answer") }
    let ahead = theirs.millis - (start.millis + Timestamp.now.millis) / 2
    let text = "\(abs(ahead)) ms \(ahead > 0 ? "ahead of" : "behind") this host"
    let remedy = "Let both hosts follow a time server: certificates, limits and retention go by the clock."
    if abs(ahead) > failedMillis { return .failed(text, remedy: remedy) }
    return abs(ahead) > warnedMillis ? .warned(text, remedy: remedy) : .ok(text)
  }

  private static let warnedMillis: Int64 = 2000
  private static let failedMillis: Int64 = 30_000
}

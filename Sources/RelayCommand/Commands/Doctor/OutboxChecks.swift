import RelayConfiguration
import RelayCore

/// Checks the messages that wait for peers.
struct OutboxChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] { [DoctorCheck(group: .outbox, name: "held") { await held() }] }

  private func held() async -> [Finding] {
    guard let storage = await site.usableStorage() else { return [DoctorSite.withoutStore] }
    do {
      let usage = try await storage.outboxUsage()
      return usage.isEmpty ? [.ok("nothing waits for any peer")] : usage.map(judge)
    } catch {
      return [.failed("\(error)", remedy: StorageChecks.startRemedy)]
    }
  }

  /// Warns when half of a bound is reached: of the age after which a message is given up, or of the room.
  private func judge(_ usage: OutboxUsage) -> Finding {
    let bounds = site.settings.federation.outbox
    let seconds = (Timestamp.now.millis - usage.oldest.millis) / 1000
    let text = "\(usage.messages) messages, \(usage.bytes) bytes, the oldest for \(seconds / 60) minutes"
    let isOld = seconds * 2 > bounds.age.components.seconds
    let isFull = usage.messages * 2 > bounds.messagesMax || usage.bytes * 2 > bounds.bytesMax
    guard isOld || isFull else { return Finding.ok(text).named("held for \(usage.relay)") }
    return Finding.warned(
      text,
      remedy:
        "`relay peer test \(usage.relay)` says why; what is not delivered in time is given up, and its sender told."
    ).named("held for \(usage.relay)")
  }
}

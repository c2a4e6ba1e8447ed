import RelayConfiguration
import RelayCore
import Storage

/// Redis, where limits and signals are shared.
struct CoordinationChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] { [DoctorCheck(group: .coordination, name: "redis") { await redis() }] }

  private func redis() async -> [Finding] {
    guard site.settings.isShared else {
      return [.skipped("limits and signals stay in the process: right for one process only")]
    }
    guard let server = await site.redisAnswer() else {
      return [
        .failed(
          "Redis does not answer",
          remedy:
            "Start it, and check coordination.url: until then each process limits by itself, and changes are seen late."
        )
      ]
    }
    let eviction =
      server.mayEvict
      ? Finding.warned(
        "maxmemory-policy is \(server.evictionPolicy ?? "unknown")",
        remedy: "Set it to noeviction: what Redis drops early, limits forget.")
      : .ok(server.evictionPolicy == nil ? "its policy cannot be asked for" : "nothing is dropped early")
    return [Finding.ok("Redis \(server.version ?? "of unknown version")"), eviction.named("eviction")]
  }
}

extension DoctorSite {
  /// It connects in the background: a moment is given.
  func redisAnswer() async -> RedisDiagnosis? {
    guard let redis else { return nil }
    for _ in 0..<Self.redisTries {
      if let answer = await redis.diagnose() { return answer }
      // Only cancellation throws here, and then the next try is the last.
      try? await Task.sleep(for: .milliseconds(100))
      if Task.isCancelled { return nil }
    }
    return nil
  }

  private static let redisTries = 40
}

import RelayConfiguration
import RelayCore
import RelayWork
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
      let fault = if let redis = site.redis { await redis.degradation() } else { site.redisFault }
      if let redis = site.redis, redis.isAtReplica {
        return [
          .failed(
            fault ?? "Redis is a replica",
            remedy: """
              Let coordination.url lead to the primary, or promote this server (REPLICAOF NO ONE): until then each \
              process limits by itself, and changes are seen late.
              """)
        ]
      }
      return [Self.failure(fault)]
    }
    let eviction =
      server.mayEvict
      ? Finding.warned(
        "maxmemory-policy is \(server.evictionPolicy ?? "unknown")",
        remedy: "Set it to noeviction: what Redis drops early, limits forget.")
      : .ok(server.evictionPolicy == nil ? "its policy cannot be asked for" : "nothing is dropped early")
    return [
      Finding.ok("Redis \(server.version ?? "of unknown version")"), eviction.named("eviction"),
      encryption(server).named("encryption"),
    ]
  }

  private static func failure(_ fault: String?) -> Finding {
    let meanwhile = "until then each process limits by itself, and changes are seen late."
    guard let fault else {
      return .failed("Redis does not answer", remedy: "Start it, and check coordination.url: \(meanwhile)")
    }
    // Redis's own message, if there is one.
    let text = fault.contains("Redis") ? fault : "Redis does not answer: \(fault)"
    let remedy =
      switch true {
      case fault.contains("WRONGPASS"), fault.contains("NOAUTH"):
        "Correct user and password in coordination.url"
      case fault.contains("NOPERM"): "Give the user of coordination.url the rights to all keys, channels and commands"
      case fault.contains("resol"), fault.contains("Name or service"), fault.contains("name resolution"):
        "Correct the host in coordination.url, or the name service"
      case fault.contains("within"): "Check the address in coordination.url, and firewalls on the way"
      default: "Start it, and check coordination.url"
      }
    return .failed(text, remedy: "\(remedy): \(meanwhile)")
  }

  private func encryption(_ server: RedisDiagnosis) -> Finding {
    guard case .redis(let endpoint) = site.settings.coordination.location else { return .skipped("no Redis") }
    if let encryption = server.encryption {
      let presents = endpoint.tls?.certificate == nil ? "we present none" : "we present ours"
      return .ok("\(encryption): the server's certificate is verified, \(presents)")
    }
    guard case .tcp(let host, _) = endpoint.address, !PublicAddress.isLoopback(host) else {
      return .ok("in clear, on this host")
    }
    return .warned(
      "in clear: the network on the way reads the password, and which numbers are busy",
      remedy: "Give Redis a tls-port, and let coordination.url be rediss://.")
  }
}

extension DoctorSite {
  /// It connects in the background: a moment is given.
  func redisAnswer() async -> RedisDiagnosis? {
    guard let redis else { return nil }
    for _ in 0..<Self.redisTries {
      if let answer = await redis.diagnose() { return answer }
      guard await Pause.for(.milliseconds(100)) else { return nil }
    }
    return nil
  }

  private static let redisTries = 40
}

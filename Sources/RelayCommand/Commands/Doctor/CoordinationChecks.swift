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
      if areSentinelsAsked { return [Self.failureBySentinels(fault)] }
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
    ] + (server.sentinels.map(Self.sentinels) ?? []) + (server.cluster.map(Self.cluster) ?? [])
  }

  /// The nodes of a cluster, some of which answer.
  private static func cluster(_ found: ClusterDiagnosis) -> [Finding] {
    var findings = [
      found.faults.isEmpty
        ? Finding.ok("\(found.nodes.count) nodes take writes")
        : .failed(
          "\(found.faults.count) of \(found.nodes.count) nodes do not answer: "
            + found.faults.joined(separator: "; "),
          remedy: "Start them, or let their replicas take over: \(meanwhile)")
    ]
    if found.missing > 0 {
      findings.append(
        .failed(
          "\(found.missing) slots have no node",
          remedy: "Run redis-cli --cluster fix: until then each process limits the keys in them by itself."))
    }
    return findings.map { $0.named("cluster") }
  }

  private var areSentinelsAsked: Bool {
    guard case .redis(let endpoint) = site.settings.coordination.location, case .sentinels = endpoint.place else {
      return false
    }
    return true
  }

  private static let meanwhile = "until then each process limits by itself, and changes are seen late."

  /// Findings of sentinels that name a primary which answers.
  private static func sentinels(_ found: SentinelDiagnosis) -> [Finding] {
    let answering = found.count - found.faults.count
    var findings = [
      found.faults.isEmpty
        ? Finding.ok("\(answering) of \(found.count) answer")
        : .warned(
          "\(answering) of \(found.count) answer: \(found.faults.joined(separator: "; "))",
          remedy: "Start those that do not, or correct their addresses and logins in coordination.url.")
    ]
    if !found.dissenters.isEmpty {
      let names = found.dissenters.map(\.description).joined(separator: ", ")
      findings.append(
        .warned(
          "\(names) does not name the primary that the others name",
          remedy: "Let the sentinels reach each other, and coordination.url list those of one group only."))
    }
    if found.canReplace == false {
      findings.append(
        .warned(
          "too few sentinels reach each other to replace the primary (NOQUORUM)",
          remedy: "Start the missing ones, or lower the quorum of sentinel monitor."))
    } else if found.count < Self.sentinelsEnough {
      findings.append(
        .warned(
          "coordination.url lists \(found.count): if they die or lie, nobody names the primary",
          remedy: "List all sentinels, three at least, each on a host of its own."))
    }
    return findings.map { $0.named("sentinels") }
  }

  private static let sentinelsEnough = 3

  /// - Parameter fault: of the sentinels, or of the primary that they name.
  private static func failureBySentinels(_ fault: String?) -> Finding {
    let fault = fault ?? "no sentinel of Redis answers"
    let remedy =
      switch true {
      case fault.contains("know no primary"): "Let coordination.url name the group as sentinel monitor does"
      case fault.contains("no sentinel of Redis") && (fault.contains("WRONGPASS") || fault.contains("NOAUTH")):
        "Correct sentinel-user and sentinel-password in coordination.url"
      case fault.contains("no sentinel of Redis"): "Start the sentinels, and check their addresses in coordination.url"
      case fault.contains("WRONGPASS"), fault.contains("NOAUTH"):
        "Correct user and password in coordination.url: they are the primary's"
      case fault.contains("is a replica"): "Wait for the end of the fail-over, or look at the sentinels' logs"
      case fault.contains("certificate"): "Let the certificate name the address that the sentinels name"
      default: "Start the primary, and let the sentinels name an address that this host reaches"
      }
    return .failed(fault, remedy: "\(remedy): \(meanwhile)")
  }

  private static func failure(_ fault: String?) -> Finding {
    guard let fault else {
      return .failed("Redis does not answer", remedy: "Start it, and check coordination.url: \(meanwhile)")
    }
    // Redis's own message, if there is one.
    let text = fault.contains("Redis") ? fault : "Redis does not answer: \(fault)"
    let remedy =
      switch true {
      case fault.contains("WRONGPASS"), fault.contains("NOAUTH"):
        "Correct user and password in coordination.url"
      case fault.contains("cluster-enabled"):
        "Let coordination.url begin with redis:// for a single server, or name nodes of a cluster"
      case fault.contains("MOVED"): "Let coordination.url begin with redis+cluster"
      case fault.contains("NOPERM"): "Give the user of coordination.url the rights to all keys, channels and commands"
      case fault.contains("has no address"), fault.contains("name server"):
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
    let known =
      endpoint.addresses + (server.sentinels?.primary.map { [$0] } ?? []) + (server.cluster?.nodes ?? [])
    let isElsewhere = known.contains { address in
      if case .tcp(let host, _) = address { !PublicAddress.isLoopback(host) } else { false }
    }
    guard isElsewhere else { return .ok("in clear, on this host") }
    return .warned(
      "in clear: the network on the way reads the password, and which numbers are busy",
      remedy: "Give Redis a tls-port, and let coordination.url begin with rediss.")
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

/// The faults that the driver can cause at an operator. A kind that stands here is built.
package enum FaultKind: String, Codable, CaseIterable, Sendable {
  /// SIGKILL, and another process in its place when the fault ends.
  case processKilled
  /// SIGSTOP, and SIGCONT when the fault ends: the process is silent, and then late.
  case processStopped
  /// Every process in turn by SIGTERM, behind the balancer.
  case rollingRestart
  /// Stopped in order, and started when the fault ends.
  case postgresRestarted
  /// Every process of it killed, and started when the fault ends: it recovers.
  case postgresCrashed
  /// The primary is killed and its synchronous standby promoted at once; a new standby follows when the fault ends.
  case postgresPromoted
  /// The standby is halted, so that commits wait for it.
  case standbyStopped
  /// `pg_terminate_backend` for all sessions, five times a second.
  case sessionsTerminated
  /// Killed, and started empty when the fault ends.
  case redisRestarted
  /// FLUSHALL and SCRIPT FLUSH.
  case redisFlushed
  /// Becomes a replica of nobody who answers, and a primary when the fault ends.
  case redisDemoted
  /// The primary's disk takes nothing more. It may end for it; it serves again when the fault ends.
  case postgresDiskFull
  /// The same of Redis, which keeps its data on disk meanwhile: it takes no writes.
  case redisDiskFull
  /// The same of what the operator's processes write to: logs, attachments.
  case relayDiskFull
  /// A later build's step of the schema is run while this build serves. Once an operator.
  case schemaStep
  /// A day past retention is there, and a process drops it while a backup reads.
  case maintenance
  /// Nothing passes a link, either way.
  case linkCut
  /// Bytes that a process sends arrive, and no answer comes back.
  case linkCutOneWay
  /// 200 ms each way.
  case linkDelayed
  /// 5 % of the segments come late by a retransmission.
  case linkLossy
  /// The clock of a process is wrong by `Fault.seconds`, and right again when the fault ends.
  case clockJumped
  /// The operator's certificate has ended; a new one is issued when the fault ends.
  case certificateEnded
  /// A process of an older build serves in the place of a new one.
  case olderBuild
  /// A tenth of the devices takes a tenth of a second over each message.
  case slowReaders

  /// Whether processes lose what they hold in memory.
  package var endsProcesses: Bool {
    switch self {
    case .processKilled, .olderBuild: true
    default: false
    }
  }

  /// Whether coordination may lose what it has counted.
  package var losesCoordination: Bool {
    switch self {
    case .redisRestarted, .redisFlushed, .redisDemoted: true
    default: false
    }
  }

  /// Whether processes may have to count alone, or anew.
  package var mayHideCoordination: Bool {
    switch self {
    case .redisRestarted, .redisDemoted, .redisDiskFull, .linkCut, .linkCutOneWay, .linkDelayed, .linkLossy,
      .processStopped, .processKilled, .rollingRestart, .olderBuild, .clockJumped:
      true
    default: false
    }
  }
}

extension FaultKind {
  /// Needs file systems of the campaign's own.
  package var needsOwnDisks: Bool {
    switch self {
    case .postgresDiskFull, .redisDiskFull, .relayDiskFull: true
    default: false
    }
  }

  /// Whether an operator can have it once in a run.
  package var happensOnce: Bool { self == .schemaStep }
}

/// A way that can be cut, slow or lossy.
package enum Link: String, Codable, CaseIterable, Sendable {
  /// From a process to it.
  case postgres
  /// From a process to it.
  case redis
  /// From this operator to the other.
  case peer
  /// From the standby to its primary.
  case standby
  /// From all clients to the operator's balancer.
  case clients

  /// Whether each process has its own.
  package var isOfProcess: Bool { self == .postgres || self == .redis }
}

/// One fault: what befalls whom.
package struct Fault: Codable, Hashable, Sendable {
  package let kind: FaultKind
  package let site: String
  /// The process it is about, from 0; nil where it is about an operator's server, or the whole operator.
  package let process: Int?
  /// The link of `linkCut` and its like.
  package let link: Link?

  /// The jump of `clockJumped`: how far the clock is ahead; below 0 behind.
  package let seconds: Int?

  package init(_ kind: FaultKind, at site: String, process: Int? = nil, link: Link? = nil, seconds: Int? = nil) {
    self.seconds = seconds
    self.kind = kind
    self.site = site
    self.process = process
    self.link = link
  }

  /// The resources that no other fault may hold at the same time.
  package func holds(of processes: Int) -> [String] {
    switch kind {
    case .processKilled, .processStopped, .clockJumped, .olderBuild: ["\(site)/\(process ?? 0)"]
    case .certificateEnded: ["\(site)/certificate"]
    case .rollingRestart: (0..<processes).map { "\(site)/\($0)" }
    // No process starts, no clock is set and no certificate is issued meanwhile: that takes room.
    case .relayDiskFull: (0..<processes).map { "\(site)/\($0)" } + ["\(site)/certificate", "\(site)/postgres"]
    case .postgresRestarted, .postgresCrashed, .postgresPromoted, .standbyStopped, .sessionsTerminated,
      .postgresDiskFull, .schemaStep, .maintenance:
      ["\(site)/postgres"]
    case .redisRestarted, .redisFlushed, .redisDemoted, .redisDiskFull: ["\(site)/redis"]
    case .linkCut, .linkCutOneWay, .linkDelayed, .linkLossy:
      link == .standby
        ? ["\(site)/postgres"] : ["\(site)/\(process.map(String.init) ?? "") \(link?.rawValue ?? "")"]
    case .slowReaders: ["\(site)/readers"]
    }
  }
}

extension Fault: CustomStringConvertible {
  package var description: String {
    "\(kind.rawValue) at \(site)" + (process.map { "/\($0)" } ?? "") + (link.map { " to \($0.rawValue)" } ?? "")
      + (seconds.map { " by \($0) s" } ?? "")
  }

  /// As Swift has it.
  var source: String {
    "Fault(.\(kind.rawValue), at: \"\(site)\"" + (process.map { ", process: \($0)" } ?? "")
      + (link.map { ", link: .\($0.rawValue)" } ?? "")
      + (seconds.map { ", seconds: \($0)" } ?? "") + ")"
  }
}

import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Federation

/// Warnings before certificates end.
@Suite(.tags(.stores)) struct CertificateWatchTests {
  private static let day = Timestamp.millisPerDay

  @Test(
    arguments: [
      (31, nil), (30, .month), (15, .month), (14, .fortnight), (4, .fortnight), (3, .days), (1, .days), (0, .days),
      (-1, .over),
    ] as [(Int64, CertificateStage?)])
  func `warning stages begin on their day`(days: Int64, stage: CertificateStage?) {
    let now = Timestamp(millis: 1_800_000_000_000)
    #expect(CertificateStage(validUntil: Timestamp(millis: now.millis + days * Self.day), now: now) == stage)
  }

  @Test func `each stage of each certificate is told once`() throws {
    let end = Timestamp(millis: 100 * Self.day)
    let ours = WatchedCertificate(holder: nil, kind: .leaf, serial: [1], validUntil: end)
    let theirs = WatchedCertificate(holder: try name("beta"), kind: .ca, serial: [1], validUntil: end)
    var alarms = CertificateAlarms()
    func due(_ day: Int64, _ watched: [WatchedCertificate]) -> [String] {
      alarms.due(among: watched, now: Timestamp(millis: day * Self.day)).map {
        "\($0.certificate.holder == nil) \($0.stage)"
      }
    }
    #expect(due(60, [ours, theirs]).isEmpty)
    #expect(due(70, [ours, theirs]) == ["true month", "false month"])
    #expect(due(75, [ours, theirs]).isEmpty)
    // A process that was asleep tells the last one alone.
    #expect(due(98, [ours, theirs]) == ["true days", "false days"])
    #expect(due(80, [ours, theirs]).isEmpty)
    #expect(due(101, [ours]) == ["true over"])
    // Its successor begins anew, and one that came back too.
    let renewed = WatchedCertificate(
      holder: nil, kind: .leaf, serial: [2], validUntil: Timestamp(millis: 120 * Self.day))
    #expect(due(101, [renewed, theirs]) == ["true month", "false over"])
  }

  @Test func `our own and peers' certificates are warned of by name`() async throws {
    let now = Mutex(TestRelay.systemClock.now())
    try await withPeers { alpha, beta in
      let certificates = FederationCertificates(identity: alpha.identity, registry: alpha.registry)
      let watch = CertificateWatch(clock: WallClock { now.withLock { $0 } }, logger: alpha.log.logger) {
        certificates.all
      }
      _ = try await alpha.courier.preKeys(of: number("+14155550100"), devices: .all, version: .two, at: name("beta"))
      watch.look()
      #expect(!alpha.log.contains("a certificate ends soon"))
      now.withLock { $0 = $0.adding(.seconds(61 * 86_400)) }
      watch.look()
      watch.look()
      let warnings = alpha.log.all.filter { $0.contains("a certificate ends soon") }
      let ours = warnings.filter { $0.contains("own") && $0.contains("run `relay ca renew`") }
      #expect(ours.count == 1, "\(warnings)")
      #expect(warnings.filter { $0.contains("ask beta's operator to run `relay ca renew`") }.count == 1)
      #expect(warnings.count == 2)
      now.withLock { $0 = $0.adding(.seconds(30 * 86_400)) }
      watch.look()
      #expect(alpha.log.all.filter { $0.contains("a certificate has ended") }.count == 2)
      now.withLock { $0 = $0.adding(.seconds(3540 * 86_400)) }
      watch.look()
      #expect(alpha.log.contains("ask beta's operator to run `relay ca rollover begin`"))
      #expect(alpha.log.contains("run `relay ca rollover begin`"))
    }
  }

  @Test func `an expired leaf is a warning at the start, and no fault`() async throws {
    let past = TestRelay.systemClock.now().adding(.seconds(-100 * 86_400))
    try await withTemporaryFolder { path in
      let folder = IdentityFolder(path: path + "/federation")
      try folder.createAuthority(for: name("alpha"), now: past)
      try folder.issueLeaf(for: name("alpha"), at: endpoint("https://alpha.example"), now: past)
      let log = LogRecorder()
      let identity = try FederationIdentity(folder: folder, name: name("alpha"), logger: log.logger)
      let registry = PeerRegistry(
        store: CountingPeers(), signals: LocalCoordination(clock: TestRelay.systemClock), logger: log.logger)
      let certificates = FederationCertificates(identity: identity, registry: registry)
      CertificateWatch(clock: TestRelay.systemClock, logger: log.logger) { certificates.all }.look()
      #expect(log.contains("a certificate has ended"))
      #expect(log.contains("run `relay ca renew`"))
    }
  }

  @Test func `seen leaves are bounded`() throws {
    let seen = SeenLeaves()
    let leaf = try TestAuthority("beta").leaf(relay: "beta").certificate
    for index in 0...SeenLeaves.peersMax { seen.note(leaf, of: try name("peer\(index)")) }
    #expect(try seen.leaf(of: name("peer0")) != nil)
    #expect(try seen.leaf(of: name("peer\(SeenLeaves.peersMax)")) == nil)
    seen.keep(only: [try name("peer1")])
    #expect(try seen.leaf(of: name("peer0")) == nil)
    #expect(try seen.leaf(of: name("peer1"))?.validUntil == leaf.validUntil)
  }
}

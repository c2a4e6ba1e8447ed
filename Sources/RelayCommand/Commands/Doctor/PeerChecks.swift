import Federation
import Relay
import RelayConfiguration
import RelayCore

/// The way to every peer, as `relay peer test` walks it.
struct PeerChecks {
  private let site: DoctorSite
  private let sendsMessages: Bool

  init(_ site: DoctorSite, sendsMessages: Bool) {
    self.site = site
    self.sendsMessages = sendsMessages
  }

  /// The list is read by one check, which then walks to all of them side by side.
  var all: [DoctorCheck] {
    [DoctorCheck(group: .peers, name: "peers", limit: Self.walkLimit + Self.listLimit) { await peers() }]
  }

  private func peers() async -> [Finding] {
    guard let storage = await site.usableStorage() else { return [DoctorSite.withoutStore] }
    let peers: [Peer]
    do {
      peers = try await storage.peers()
    } catch {
      return [.failed("\(error)", remedy: StorageChecks.startRemedy)]
    }
    guard !peers.isEmpty else { return [.skipped("there are none")] }
    let credentials: FederationCredentials
    do {
      credentials = try site.credentials()
    } catch {
      return [.failed("no peer can be asked: \(error)", remedy: "See the certificates above.")]
    }
    let source = sendsMessages ? await probeAccount() : nil
    let probe = PeerProbe(
      credentials: credentials, addresses: site.settings.federation.peerAddresses, clock: .system)
    return await withTaskGroup(of: (Int, [Finding]).self) { group in
      for (index, peer) in peers.enumerated() {
        group.addTask { (index, await Self.walk(to: peer, probe, source)) }
      }
      var found: [[Finding]] = Array(repeating: [], count: peers.count)
      for await (index, findings) in group { found[index] = findings }
      return found.flatMap(\.self)
    }
  }

  private func probeAccount() async -> AccountNumber? {
    guard let storage = await site.usableStorage() else { return nil }
    // Without one no message is sent; what keeps it from being made is told under storage.
    return try? await PeerCommand.probeAccount(site.settings, storage).prepare()
  }

  /// The steps that did not pass, each by its name; one line when all did.
  private static func walk(to peer: Peer, _ probe: PeerProbe, _ source: AccountNumber?) async -> [Finding] {
    guard peer.state == .active else { return [Finding.skipped("suspended").named("\(peer.name)")] }
    guard let known = KnownPeer(peer) else {
      return [
        Finding.failed("its CA cannot be read", remedy: "Remove it and peer anew.").named("\(peer.name)")
      ]
    }
    var (passed, findings): (Int, [Finding]) = (0, [])
    for await result in probe.walk(known, .init(source: source), within: walkLimit) {
      let name = "\(peer.name) \(result.step.rawValue)"
      switch result.outcome {
      case .passed: passed += 1
      // It says no more than the step that failed, or what the peering leaves out.
      case .skipped: break
      case .warned: findings.append(Finding.warned(result.text, remedy: result.remedy ?? "").named(name))
      case .failed: findings.append(Finding.failed(result.text, remedy: result.remedy ?? "").named(name))
      }
    }
    return findings.isEmpty ? [Finding.ok("\(passed) steps of the way passed").named("\(peer.name)")] : findings
  }

  private static let walkLimit = DoctorCheck.usualLimit
  private static let listLimit = Duration.seconds(5)
}

import ChildProcesses
import Foundation
import RelayHTTP

/// The two operators of the demo and the folder that holds all they store.
struct DemoOperators {
  let report: DemoReport
  let alpha: DemoOperator
  let beta: DemoOperator
  private let folder: URL

  /// Nothing runs yet. `discard()` removes what this made.
  init(report: DemoReport) async throws {
    self.report = report
    let ports = try await FreePorts.find(6)
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-demo-\(UUID().uuidString)")
    let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    let makeOperator = { (name: String, ports: ArraySlice<Int>) throws -> DemoOperator in
      let own = folder.appending(path: name)
      try FileManager.default.createDirectory(
        at: own, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      let first = ports.startIndex
      return DemoOperator(
        name: name, folder: own,
        ports: DemoOperator.Ports(
          client: ports[first], federation: ports[first + 1], administration: ports[first + 2]),
        executable: executable, environment: ProcessInfo.processInfo.environment)
    }
    alpha = try makeOperator("alpha", ports[0..<3])
    beta = try makeOperator("beta", ports[3..<6])
    self.folder = folder
  }

  /// Certificates, relays, and the peering between them. - Throws: `DemoFailure`, after it was shown.
  func start() async throws {
    report.heading("Each operator makes its own certificates and starts its relay")
    for one in [alpha, beta] {
      try await report.step(one.name, "relay ca init") {
        _ = try await one.relay("ca", "init")
        return ((), "a certificate authority of \(one.name)'s own")
      }
      try await report.step(one.name, "relay ca issue") {
        _ = try await one.relay("ca", "issue")
        return ((), "a certificate for 127.0.0.1 as relay \(one.name)")
      }
      try await report.step(one.name, "relay serve") {
        try await one.serve()
        return ((), "ready: clients \(one.url), peers https://127.0.0.1:\(one.ports.federation)")
      }
    }
    report.heading("The operators become peers")
    let invitation = try await report.step("alpha", "relay peer invite") {
      let output = try await alpha.relay("peer", "invite")
      guard let invitation = output.split(whereSeparator: \.isNewline).last.map(String.init) else {
        throw DemoFailure("it printed no invitation")
      }
      return (invitation, "an invitation, \(invitation.utf8.count) characters, to be used once")
    }
    try await report.step("beta", "relay peer accept INVITATION") {
      _ = try await beta.relay("peer", "accept", invitation)
      return ((), "each lists the other as active")
    }
    let seenByAlpha = try await words(of: "beta", by: alpha)
    let seenByBeta = try await words(of: "alpha", by: beta)
    guard seenByAlpha.ours == seenByBeta.theirs, seenByAlpha.theirs == seenByBeta.ours else {
      throw DemoFailure("one operator's words are not what the other sees", relay: "beta")
    }
    report.text("      Each sees the other's words as the other does itself: there is nobody in between.")
  }

  /// Waits for ever. - Throws: `DemoFailure` when one of the relays ends by itself.
  func untilOneEnds() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for one in [alpha, beta] {
        group.addTask { try await one.untilItEnds() }
      }
      defer { group.cancelAll() }
      try await group.next()
    }
  }

  /// Ends both relays and removes all they stored.
  func discard() async {
    await alpha.stop()
    await beta.stop()
    do {
      try FileManager.default.removeItem(at: folder)
    } catch {
      report.text("\(folder.path) could not be removed: \(FaultWords.of(error))")
    }
  }

  func named(_ name: String) -> DemoOperator? { [alpha, beta].first { $0.name == name } }

  private func words(of peer: String, by one: DemoOperator) async throws -> (ours: String, theirs: String) {
    try await report.step(one.name, "relay peer list --json") {
      let output = try await one.relay("peer", "list", "--json")
      let peers = try JSONDecoder().decode([ListedPeer].self, from: Data(output.utf8))
      guard let listed = peers.first(where: { $0.name == peer }) else { throw DemoFailure("\(peer) is not listed") }
      guard listed.state == "active" else { throw DemoFailure("\(peer) is \(listed.state)") }
      return ((listed.ourWords, listed.theirWords), "\(peer) is active: \(listed.theirWords)")
    }
  }

  private struct ListedPeer: Decodable {
    let name: String
    let state: String
    let ourWords: String
    let theirWords: String
  }
}

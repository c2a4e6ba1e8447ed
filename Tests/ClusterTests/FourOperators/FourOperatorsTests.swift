import ChildProcesses
import Foundation
import Glibc
import TestSupport
import TestTags
import Testing

/// Alpha and its three peers, of which delta falls into every kind of trouble (docs/federation.md, "What happened").
@Suite(.tags(.time)) struct FourOperatorsTests {
  private struct Trouble: Sendable {
    let name: String
    /// Whether the packets between hosts have to be touched.
    var needsPackets = false
    let begin: @Sendable (_ delta: Operator, _ alpha: Operator, PacketSwitch?) async throws -> Void
    let end: @Sendable (_ delta: Operator, _ alpha: Operator, PacketSwitch?) async throws -> Void
  }

  private static let troubles = [
    Trouble(name: "killed") { delta, _, _ in
      await delta.kill9()
    } end: { delta, _, _ in
      try await delta.start()
    },
    Trouble(name: "paused") { delta, _, _ in
      await delta.send(SIGSTOP)
    } end: { delta, _, _ in
      await delta.send(SIGCONT)
    },
    Trouble(name: "slow: 200 ms, 5 % loss", needsPackets: true) { delta, alpha, packets in
      let slow = PacketSwitch.Link(delay: .milliseconds(200), loss: 0.05)
      packets?.set(slow, from: delta.host.index, to: alpha.host.index)
      packets?.set(slow, from: alpha.host.index, to: delta.host.index)
    } end: { delta, alpha, packets in
      packets?.set(.whole, from: delta.host.index, to: alpha.host.index)
      packets?.set(.whole, from: alpha.host.index, to: delta.host.index)
    },
    Trouble(name: "cut off, its answers only", needsPackets: true) { delta, alpha, packets in
      packets?.set(PacketSwitch.Link(isCut: true), from: delta.host.index, to: alpha.host.index)
    } end: { delta, alpha, packets in
      packets?.set(.whole, from: delta.host.index, to: alpha.host.index)
    },
    Trouble(name: "clock 200 days ahead") { delta, _, _ in
      await delta.kill9()
      try await delta.start(clock: "+200d")
    } end: { delta, _, _ in
      await delta.kill9()
      try await delta.start()
    },
    Trouble(name: "certificate revoked") { delta, alpha, _ in
      try await delta.site.relay("ca", "revoke", "--leaf")
      try await eventually("alpha has heard of it", within: .seconds(90), every: .milliseconds(200)) {
        try await alpha.site.relay("peer", "list", "--json").contains("certificate\"")
      }
    } end: { delta, _, _ in
      try await delta.site.relay("ca", "issue")
    },
  ]

  /// How long each state is measured. Longer for the figures of docs/federation.md: a 99th percentile of few samples
  /// is the machine's longest pause.
  private static let window = ProcessInfo.processInfo.environment["RELAY_TRIAL_SECONDS"].flatMap { Int($0) } ?? 8

  /// Limits that nobody runs into but a peer that floods.
  private static let settings = Cluster.unlimited.merging([
    "RELAY_LIMITS_PEER_RECIPIENTS_SIZE": "200", "RELAY_LIMITS_PEER_RECIPIENTS_PER_MINUTE": "1200",
    "RELAY_LIMITS_MESSAGES_PER_MINUTE": "1000000",
  ]) { $1 }

  @Test func `a peer in trouble hurts nobody else, and what was accepted for it arrives once`() async throws {
    try await Operators.with(settings: Self.settings) { operators, network in
      let (alpha, delta) = (operators[0], operators[3])
      let traffic = try await Traffic(operators)
      // The peer confirms the devices that messages may be held for.
      for lane in traffic.lanes { #expect(await traffic.send(on: lane) == 200) }
      // Nothing is measured of servers that have just started.
      _ = await traffic.run(seconds: 15, perSecond: 20)
      var report = Report()
      for trouble in Self.troubles where !trouble.needsPackets || network.packets != nil {
        let quiet = await traffic.run(seconds: Self.window, perSecond: 20)
        try await trouble.begin(delta, alpha, network.packets)
        let disturbed = await traffic.run(seconds: Self.window, perSecond: 20)
        try await trouble.end(delta, alpha, network.packets)
        let ended = ContinuousClock.now
        try await expectEmptyOutbox(of: alpha, after: trouble.name)
        let emptied = ContinuousClock.now - ended
        let delivery = try await traffic.settle(operators)
        report.add(trouble.name, quiet: quiet, disturbed: disturbed, emptied: emptied, delivery)
        try await expectPassing(traffic, after: trouble.name)
      }
      try await flood(from: delta, at: alpha, traffic, operators, &report)
      print(report.table)
    }
  }

  /// Alpha's processes have handed over all that they took into the outbox, as their metrics say.
  private func expectEmptyOutbox(of alpha: Operator, after trouble: String) async throws {
    let relays = await alpha.relays
    try await eventually("alpha's outbox is empty after: \(trouble)", within: .seconds(60), every: .milliseconds(50)) {
      var held = 0.0
      for relay in relays {
        let metrics = try await relay.ask("/metrics").text
        held += Self.value(of: "relay_outbox_held_total", in: metrics)
        held -= Self.value(of: "relay_outbox_delivered_total", in: metrics)
      }
      return held == 0
    }
  }

  /// The value of a metric without dimensions; 0 while there is none.
  private static func value(of name: String, in metrics: String) -> Double {
    let line = metrics.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
    return line.flatMap { Double($0.dropFirst(name.count + 1)) } ?? 0
  }

  private func expectPassing(_ traffic: Traffic, after trouble: String) async throws {
    for lane in traffic.lanes {
      try await eventually("\(lane.name) is reached after: \(trouble)", within: .seconds(60), every: .milliseconds(100))
      {
        await traffic.send(on: lane) == 200
      }
    }
  }

  /// Delta's clients write to an account at alpha ten times as fast as alpha lets delta.
  ///
  /// Not as fast as they can: here the operators share the processors, and what delta spends on its own clients would
  /// be taken from alpha.
  private func flood(
    from delta: Operator, at alpha: Operator, _ traffic: Traffic, _ operators: [Operator], _ report: inout Report
  ) async throws {
    let (home, there) = (try #require(await delta.relays.first), try #require(await alpha.relays.first))
    let (sender, victim) = (try await home.register(), try await there.register())
    // As many as no mailbox is full in between.
    var neighbours: [TestDevice] = []
    for _ in 0..<(Self.window / 2) { neighbours.append(try await home.register()) }
    let (before, answers) = (Ledger<Int>(), Ledger<Int>())
    // Compared with a delta whose clients write as much to each other: what that costs the machine is no harm done to
    // alpha.
    async let quiet = traffic.run(seconds: Self.window, perSecond: 20)
    await write(from: sender, at: home, to: neighbours, "", before) { true }
    let undisturbed = await quiet
    async let disturbed = traffic.run(seconds: Self.window, perSecond: 20)
    // On a machine so busy that its budget lasts for longer, until that has ended.
    await write(from: sender, at: home, to: [victim], #""relay":"alpha","#, answers) { answers.all.contains(413) }
    let measured = await disturbed
    #expect(before.all.allSatisfy { $0 == 200 })
    #expect(answers.all.contains(413), "its budget ends")
    let delivery = try await traffic.settle(operators)
    report.add(
      "flooding: \(answers.count) messages, \(answers.all.count { $0 == 413 }) refused with 413", quiet: undisturbed,
      disturbed: measured, emptied: nil, delivery)
  }

  /// 200 messages a second for as long as is measured, or for as long as it takes until `isDone`.
  private func write(
    from sender: TestDevice, at relay: RelayProcess, to recipients: [TestDevice], _ field: String,
    _ answers: Ledger<Int>, until isDone: @escaping @Sendable () -> Bool
  ) async {
    await withTaskGroup(of: Void.self) { group in
      let end = ContinuousClock.now + .seconds(Self.window)
      let latest = end + .seconds(90)
      for lane in 0..<16 {
        group.addTask {
          var time = Int64(lane) * 1_000_000
          var due = ContinuousClock.now
          while ContinuousClock.now < end || (ContinuousClock.now < latest && !isDone()) {
            time += 1
            due += .milliseconds(80)
            let json = #"{"timestamp":\#(time),\#(field)"messages":[\#(message())]}"#
            let recipient = recipients[Int(time) % recipients.count]
            let answer = try? await relay.send("PUT", "/v1/messages/\(recipient.number)", json: json, as: sender)
            answers.add(answer?.status ?? 0)
            if ContinuousClock.now < due { try? await Task.sleep(until: due) }
          }
        }
      }
    }
  }

  /// The events, as the table of docs/federation.md.
  private struct Report {
    private var rows: [String] = []

    var table: String {
      ([
        "| Delta | p99 to the others, before -> meanwhile | Answers to those who write to delta | Longest answer | Outbox "
          + "empty after | Lost | Doubled |", "| --- | --- | --- | ---: | ---: | ---: | ---: |",
      ] + rows)
      .joined(separator: "\n")
    }

    mutating func add(
      _ name: String, quiet: [String: [Traffic.Sample]], disturbed: [String: [Traffic.Sample]], emptied: Duration?,
      _ delivery: (lost: Int, doubled: Int)
    ) {
      #expect(delivery.lost == 0 && delivery.doubled == 0, "\(name): \(delivery)")
      var others: [String] = []
      for lane in ["alpha", "beta", "gamma"] {
        let (before, meanwhile) = (quiet[lane] ?? [], disturbed[lane] ?? [])
        #expect(before.allSatisfy { $0.status == 200 } && meanwhile.allSatisfy { $0.status == 200 }, "\(name): \(lane)")
        // A request that waits for the peer in trouble waits for its time-out of 10 s. Shorter waits may be the
        // machine's: the figures are in the table.
        #expect(meanwhile.p99 < max(before.p99 * 2, MachineSpeed.allow(.seconds(5))), "\(name): \(lane)")
        others.append("\(lane) \(Self.text(before.p99)) -> \(Self.text(meanwhile.p99))")
      }
      let victims = disturbed["delta"] ?? []
      #expect(victims.longest < MachineSpeed.allow(.seconds(14)), "\(name): an answer comes within the time-out")
      rows.append(
        "| \(name) | \(others.joined(separator: ", ")) | \(victims.answers) | \(Self.text(victims.longest)) | "
          + "\(emptied.map(Self.text) ?? "-") | \(delivery.lost) | \(delivery.doubled) |")
    }

    private static func text(_ duration: Duration) -> String {
      let millis = duration / .milliseconds(1)
      return millis < 1000 ? "\(Int(millis.rounded())) ms" : String(format: "%.1f s", millis / 1000)
    }
  }
}

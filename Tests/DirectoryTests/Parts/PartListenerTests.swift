import Glibc
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

/// Parts over HTTP: who is asked, and who is asked instead.
@Suite(.tags(.processes)) struct PartListenerTests {
  private static let refusal = Problem(.unavailable, retryAfter: .seconds(1))

  private static func outcome(_ source: any ContactSource, _ tokens: [ContactToken]) async throws -> Outcome {
    Outcome(try await source.find(WantedContacts(tokens, telling: .changes(since: PartSample.place(5)))), of: tokens)
  }

  @Test func `many look-ups at once find what the whole directory has`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 4, seed: 1)
      let ports = try Loopback.freePorts(4)
      for (view, port) in zip(sample.parts, ports) { try await servers.start(view, at: port) }
      let parts = servers.parts(zip(sample.parts, ports).map { ($0.part, $1) })
      let whole = LocalContacts(sample.whole)
      try parts.demandReady(for: nil)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for seed in 1...200 as ClosedRange<UInt64> {
          group.addTask {
            var random = SeededGenerator(seed: seed)
            let tokens = sample.someTokens(&random)
            let (found, expected) = (try await Self.outcome(parts, tokens), try await Self.outcome(whole, tokens))
            #expect(found == expected)
          }
        }
        try await group.waitForAll()
      }
      #expect(parts.count == sample.whole.table.count)
    }
  }

  @Test func `a part that stopped is refused, its twin is asked instead, and the watch finds it again`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 2, seed: 2)
      let ports = try Loopback.freePorts(3)
      let (one, two) = (sample.parts[0], sample.parts[1])
      try await servers.start(one, at: ports[0])
      try await servers.start(two, at: ports[1])
      try await servers.start(two, at: ports[2])
      let parts = servers.parts([(one.part, ports[0]), (two.part, ports[1]), (two.part, ports[2])])
      let expected = try await Self.outcome(LocalContacts(sample.whole), sample.tokens)
      for _ in 0..<3 { #expect(try await Self.outcome(parts, sample.tokens) == expected) }

      await servers.stop(ports[1])
      for _ in 0..<8 { #expect(try await Self.outcome(parts, sample.tokens) == expected) }
      #expect(servers.log.contains("a process with a part of the directory does not answer, others are asked"))

      await servers.stop(ports[2])
      try await eventually("the part is known to be away") {
        await #expect(throws: Self.refusal) { try await parts.find(WantedContacts(sample.tokens)) }
        do { try parts.demandReady(for: nil) } catch { return true }
        return false
      }
      // Who needs the other part alone is answered.
      let ours = sample.tokens.filter(one.part.holds)
      try parts.demandReady(for: ours)
      #expect(try await parts.find(WantedContacts(ours)).hits.count == ours.count { sample.whole.entry(of: $0) != nil })
      #expect(throws: Self.refusal) { try parts.demandReady(for: sample.tokens) }

      try await servers.start(two, at: ports[1])
      let watching = Task { try await parts.run() }
      defer { watching.cancel() }
      try await eventually("the watch finds it") { () async throws -> Bool in
        do { try parts.demandReady(for: nil) } catch { return false }
        return true
      }
      #expect(try await Self.outcome(parts, sample.tokens) == expected)
      #expect(servers.log.contains("a process with a part of the directory answers again"))
    }
  }

  @Test func `a silent process costs its time, and is asked no more`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 1, seed: 3)
      let port = try Loopback.freePorts(1)[0]
      try await servers.start(sample.parts[0], at: port)
      let silent = try Loopback.listen()
      defer { Glibc.close(silent.descriptor) }
      let parts = servers.parts(
        [(.whole, silent.port), (.whole, port)], limit: MachineSpeed.allow(.seconds(1)))
      for _ in 0..<6 { #expect(try await parts.find(WantedContacts(sample.tokens)).hits.isEmpty == false) }
      #expect(servers.log.lines.count { $0.contains("does not answer") && $0.contains("no answer in time") } == 1)
    }
  }

  @Test func `another key, another part and a part that is not loaded are no answers`() async throws {
    try await PartServers.with { servers in
      let sample = try PartSample(parts: 2, seed: 4)
      let ports = try Loopback.freePorts(2)
      let (one, two) = (sample.parts[0], sample.parts[1])
      try await servers.start(one, at: ports[0])
      try await servers.start(try DirectoryView(part: two.part), at: ports[1])
      let client = PartClient(key: PartServers.key)
      let stranger = PartClient(key: SecretBytes([UInt8](repeating: 8, count: 32)))
      func address(_ view: DirectoryView, _ port: Int) -> PartAddress {
        PartAddress(view.part, host: "127.0.0.1", port: port)
      }
      #expect(try await client.look(at: address(one, ports[0])).entries == one.table.count)
      await #expect(throws: PartFailure.unauthorized) { try await stranger.look(at: address(one, ports[0])) }
      await #expect(throws: PartFailure.otherPart) { try await client.look(at: address(two, ports[0])) }
      await #expect(throws: PartFailure.notReady) { try await client.look(at: address(two, ports[1])) }
      let parts = servers.parts([(one.part, ports[0]), (two.part, ports[1])])
      await #expect(throws: Self.refusal) { try await parts.find(WantedContacts(sample.tokens)) }
    }
  }
}

import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@testable import Directory

extension FollowerSite {
  /// A pace at which no test waits for what is rare.
  static var indexPace: ObliviousIndexer.Pace {
    var pace = ObliviousIndexer.Pace()
    pace.poll = .milliseconds(20)
    pace.pause = .milliseconds(1)
    pace.leaseTry = .milliseconds(50)
    pace.key = .milliseconds(50)
    return pace
  }

  /// Runs an indexer of this store, as one process has it, while `body` runs.
  func index<Result>(
    _ pace: ObliviousIndexer.Pace = FollowerSite.indexPace, isolation: isolated (any Actor)? = #isolation,
    _ body: (ObliviousIndexer) async throws -> Result
  ) async throws -> Result {
    let indexer = ObliviousIndexer(
      store: store, signals: signals, clock: Self.clock, logger: log.logger, pace: pace)
    let running = Task { try await indexer.run() }
    let result: Result
    do {
      try await eventually("the key is known") { indexer.keyring.key != nil }
      result = try await body(indexer)
    } catch {
      running.cancel()
      throw error
    }
    running.cancel()
    try await running.value
    return result
  }

  /// As a page shows them now.
  func outputs(under key: ObliviousKey) async throws -> [ObliviousOutput]? {
    try await store.outputs(
      under: key.id, in: ObliviousPrefix.all.range, limit: 10_000,
      followedSince: Self.clock.now().adding(.zero - ObliviousPages.ageMax))?.map(\.output)
  }

  /// Waits until the outputs are those of `tokens` that the directory knows, and no others.
  func expectOutputs(_ tokens: [ContactToken], under key: ObliviousKey?) async throws {
    let key = try #require(key)
    let known = Set(try await store.entries(for: tokens).map(\.token))
    let expected = try key.outputs(of: Array(known)).map(\.output).sorted()
    try await eventually("the outputs are those of \(known.count) contacts", within: .seconds(120)) {
      try await outputs(under: key) == expected
    }
  }
}

/// The outputs follow the directory.
@Suite(.tags(.stores)) struct ObliviousIndexerTests {
  private static func tokens(_ range: ClosedRange<Int>) throws -> [ContactToken] {
    try range.map { try FollowerSite.token($0) }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `every contact has its output, soon after it comes and no longer than it stays`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...20)
      for index in 1...4 { try await site.register(index) }
      let peer = try await site.addPeer("alpha")
      // One of them is ours too.
      try await site.list(Array(tokens[3..<9]), at: peer)
      try await site.index { indexer in
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        try await site.register(10)
        try await site.register(11, isDiscoverable: false)
        try await site.register(2, isActive: false)
        try await site.list([tokens[11]], at: peer)
        try await site.list([tokens[6]], at: peer, isInactive: true)
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        #expect(try await site.store.setPeerState(.suspended, of: peer))
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        #expect(try await site.store.setPeerState(.active, of: peer))
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
      }
      #expect(site.log.lines.allSatisfy { !$0.contains("warning") }, "\(site.log.lines)")
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a restart goes on where the process before it stopped`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...12)
      for index in 1...6 { try await site.register(index) }
      let key = try await site.index { indexer in
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        try await eventually("nothing is left to do") { try await site.store.obliviousProgress()?.isSwept == true }
        return try #require(indexer.keyring.key)
      }
      try await site.register(7)
      try await site.register(1, isActive: false)
      let before = try #require(try await site.store.obliviousProgress())
      #expect(before.isComplete)
      try await site.index { indexer in
        #expect(indexer.keyring.key?.id == key.id)
        try await site.expectOutputs(tokens, under: key)
      }
      // It did not look at everything again: that would be 16 writings more.
      let after = try #require(try await site.store.obliviousProgress())
      #expect(after.isComplete && after.step < before.step + 10)
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `work that a process left unfinished is finished by the next one`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...12)
      for index in 1...12 { try await site.register(index) }
      let key = try await ObliviousKeyring(store: site.store).refresh()
      // As if it had been killed behind half of the ranges: with an output of somebody who is gone, and none of others.
      let half = tokens.filter { $0.firstByte < 128 }
      let gone = try FollowerSite.token(99)
      let progress = ObliviousProgress(
        key: key.id, place: try await site.store.directoryPlace(), rangesDone: 128, isSwept: false,
        followed: FollowerSite.clock.now(), step: 7)
      let change = ObliviousChange(added: try key.outputs(of: half + [gone]))
      #expect(try await site.store.writeOutputs(change, progress, over: nil))
      try await site.register(13)
      let unfinished = try await site.outputs(under: key)
      #expect(unfinished == nil)
      try await site.index { _ in
        try await site.expectOutputs(tokens + [gone, try FollowerSite.token(13)], under: key)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `one process does the work, and another takes over when it ends`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...10)
      for index in 1...3 { try await site.register(index) }
      try await site.index { second in
        try await site.index { first in
          try await site.expectOutputs(tokens, under: first.keyring.key)
          #expect(first.keyring.key?.id == second.keyring.key?.id)
          try await site.register(4)
          try await site.expectOutputs(tokens, under: second.keyring.key)
        }
        try await site.register(5)
        try await site.register(1, isActive: false)
        try await site.expectOutputs(tokens, under: second.keyring.key)
      }
      #expect(site.log.lines.allSatisfy { !$0.contains("warning") }, "\(site.log.lines)")
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `an overtaken process begins with the other's results`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...10)
      for index in 1...3 { try await site.register(index) }
      try await site.index { indexer in
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        // Some other process goes on, wherever this one is just now.
        try await eventually("the other has written") {
          let progress = try #require(try await site.store.obliviousProgress())
          let next = ObliviousProgress(
            key: progress.key, place: progress.place, rangesDone: progress.rangesDone, isSwept: progress.isSwept,
            followed: progress.followed, step: progress.step + 1000)
          return try await site.store.writeOutputs(ObliviousChange(), next, over: progress.step)
        }
        try await site.register(4)
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `under another key everything is evaluated anew, in every process`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...10)
      for index in 1...5 { try await site.register(index) }
      let other = try ObliviousKey.test(9)
      try await site.index { second in
        try await site.index { first in
          let key = try #require(first.keyring.key)
          try await site.expectOutputs(tokens, under: key)
          #expect(
            try await site.store.replaceServerSecret(
              ServerKeyName.oblivious.rawValue, key.secret.bytes, with: other.secret.bytes))
          try await site.expectOutputs(tokens, under: other)
          try await eventually("both know it") {
            first.keyring.key?.id == other.id && second.keyring.key?.id == other.id
          }
          let former = try await site.outputs(under: key)
          #expect(former == nil)
        }
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `a process that cannot follow the feed any more goes through everything again`(backend: FollowerSite.Backend)
    async throws
  {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...10)
      for index in 1...5 { try await site.register(index) }
      try await site.index { indexer in
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        // As the restore of an older state does.
        try await site.store.setAsideOneTimePreKeys(epoch: 100, by: .process, behind: .zero)
        try await site.register(6)
        try await eventually("it begins anew") { site.log.contains("the whole directory again") }
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
      }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `outputs that nobody kept up to date are none, until somebody has`(backend: FollowerSite.Backend) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...6)
      for index in 1...3 { try await site.register(index) }
      let key = try await site.index { indexer in
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        return try #require(indexer.keyring.key)
      }
      // As after hours in which nobody could follow.
      let progress = try #require(try await site.store.obliviousProgress())
      let old = ObliviousProgress(
        key: progress.key, place: progress.place, rangesDone: progress.rangesDone, isSwept: progress.isSwept,
        followed: FollowerSite.clock.now().adding(.seconds(-3600)), step: progress.step + 1)
      #expect(try await site.store.writeOutputs(ObliviousChange(), old, over: progress.step))
      let outputs = try await site.outputs(under: key)
      #expect(outputs == nil)
      try await site.index { _ in try await site.expectOutputs(tokens, under: key) }
    }
  }

  @Test(arguments: FollowerSite.Backend.allCases)
  func `when look-ups are no longer offered all outputs go, and they come again when they are`(
    backend: FollowerSite.Backend
  ) async throws {
    try await FollowerSite.with(backend) { site in
      let tokens = try Self.tokens(1...6)
      for index in 1...3 { try await site.register(index) }
      let removal = ObliviousRemoval(store: site.store, logger: site.log.logger, pause: .milliseconds(50))
      let removing: Task<Void, any Error> = try await site.index { indexer in
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        let removing = Task { try await removal.run() }
        // It waits for the process that offers them.
        try await site.register(4)
        try await site.expectOutputs(tokens, under: indexer.keyring.key)
        return removing
      }
      try await eventually("all outputs are gone") {
        try await site.store.tokensWithOutput(after: nil, limit: 1).isEmpty
      }
      #expect(try await site.store.obliviousProgress()?.isComplete == false)
      removing.cancel()
      try await removing.value
      try await site.index { indexer in try await site.expectOutputs(tokens, under: indexer.keyring.key) }
    }
  }

  @Test func `while the feed cannot be read the lag rises`() async throws {
    try await FollowerSite.with(.embedded) { site in
      try await site.index { indexer in
        try await site.expectOutputs([], under: indexer.keyring.key)
        await site.store.close()
        try await eventually("it falls behind") { indexer.lag > .seconds(2) }
      }
    }
  }

  @Test func `a secret that is no key is told, and keeps the relay from nothing else`() async throws {
    try await FollowerSite.with(.embedded) { site in
      _ = try await site.store.serverSecret(ServerKeyName.oblivious.rawValue, orStore: [1, 2, 3])
      let indexer = ObliviousIndexer(
        store: site.store, signals: site.signals, clock: FollowerSite.clock, logger: site.log.logger,
        pace: FollowerSite.indexPace)
      let running = Task { try await indexer.run() }
      try await eventually("it is told") { site.log.contains("has not 32 bytes") }
      #expect(indexer.keyring.key == nil)
      running.cancel()
      try await running.value
    }
  }
}

import RelayCore
import Synchronization
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.computing)) struct TokenTableTests {
  /// A random walk over few tokens, so that they are added, changed, removed and added again, beside a dictionary.
  @Test(arguments: [1, 2, 3, 4]) func `it holds what a dictionary holds`(seed: UInt64) throws {
    var random = SplitMix(seed)
    let tokens = (0..<3000).map { _ in ContactToken.random(&random) }
    let table = try TokenTable(secret: random.next())
    var model: [ContactToken: TokenEntry] = [:]
    for _ in 0..<400 {
      let changes = (0..<Int(random.next() % 200)).map { _ in
        let token = tokens[Int(random.next() % UInt64(tokens.count))]
        return TokenChange(token, random.next() % 3 == 0 ? nil : TokenEntry.random(&random))
      }
      try table.apply(changes)
      for change in changes { model[change.token] = change.entry }
      if random.next() % 50 == 0 {
        let relay = Int(random.next() % 4)
        let expected = Set(model.filter { $0.value.relay == relay }.keys)
        let removed = table.removeAll(of: relay)
        #expect(Set(removed) == expected && removed.count == expected.count)
        model = model.filter { $0.value.relay != relay }
      }
      #expect(table.count == model.count)
    }
    #expect(tokens.allSatisfy { table.entry(of: $0) == model[$0] })
    #expect(table.all == model)
    #expect(table.found(tokens) == tokens.map { model[$0] })
  }

  @Test func `tokens that share a place are told apart`() throws {
    let table = try TokenTable(secret: 0)
    // Neighbours in either part of a token, and the token of zeros, which a free slot looks like.
    let tokens = (0..<600).flatMap { index in
      [ContactToken(high: 0, low: UInt16(index)), ContactToken(high: UInt64(index + 1) << 40, low: 0)]
    }
    for (index, token) in tokens.enumerated() {
      #expect(table.entry(of: token) == nil)
      try table.apply([TokenChange(token, TokenEntry(relay: index, supportsSMS: index % 2 == 0, voice: index % 3 == 0))]
      )
    }
    let expected = tokens.indices.map { TokenEntry(relay: $0, supportsSMS: $0 % 2 == 0, voice: $0 % 3 == 0) }
    #expect(table.found(tokens) == expected)
    #expect(table.count == tokens.count)
  }

  /// A first load: parts of the directory in any order, with tokens that several relays name.
  @Test(arguments: [1, 2, 3]) func `an entry added from parts is ours if we have it, else some peer's`(seed: UInt64)
    throws
  {
    var random = SplitMix(seed)
    let tokens = (0..<2000).map { _ in ContactToken.random(&random) }
    let table = try TokenTable(secret: random.next())
    var named: [ContactToken: [TokenEntry]] = [:]
    var contested: Set<ContactToken> = []
    for _ in 0..<40 {
      let part = (0..<150).map { _ in
        (tokens[Int(random.next() % UInt64(tokens.count))], TokenEntry.random(&random))
      }
      for (token, entry) in part { named[token, default: []].append(entry) }
      try table.add(part) { contested.insert($0) }
    }
    #expect(table.count == named.count)
    for (token, entries) in named {
      let ours = entries.filter { $0.relay == 0 }
      #expect(table.entry(of: token) == (ours.last ?? entries.first))
      if ours.isEmpty, Set(entries.map(\.relay)).count > 1 { #expect(contested.contains(token)) }
      if Set(entries.map(\.relay)).count == 1 { #expect(!contested.contains(token)) }
    }
  }

  @Test func `a scan sees each token once, however it is divided, and goes on where the table grows`() throws {
    var random = SplitMix(5)
    let table = try TokenTable()
    let tokens = (0..<5000).map { _ in ContactToken.random(&random) }
    try table.apply(tokens.map { TokenChange($0, .random(&random)) })
    for slotsMax in [1, 7, 4096, 1 << 30] {
      var scan = table.scan()
      var seen: [ContactToken] = []
      while true {
        let isMore = scan.next(slotsMax) { token, _ in seen.append(token) }
        guard isMore else { break }
        // Grows beside the scan that has begun.
        if slotsMax == 4096 {
          try table.apply((0..<3000).map { _ in TokenChange(.random(&random), .random(&random)) })
        }
      }
      #expect(Set(seen).isSuperset(of: tokens) && Set(seen).count == seen.count)
    }
  }

  @Test func `at its working load an entry takes sixteen bytes`() throws {
    let table = try TokenTable()
    var random = SplitMix(7)
    var fewest = Double.infinity
    for _ in 0..<200 {
      try table.apply(
        (0..<1000).map { _ in TokenChange(.random(&random), TokenEntry(relay: 0, supportsSMS: true, voice: true)) })
      let bytes = Double(table.byteCount) / Double(table.count)
      fewest = min(fewest, bytes)
      #expect(table.count < 10_000 || bytes <= 20.1)
    }
    #expect(fewest < 16.5)
  }

  @Test func `removing and adding for a long time does not make the table grow`() throws {
    let table = try TokenTable(roomFor: 10_000)
    var random = SplitMix(9)
    let bytes = table.byteCount
    for _ in 0..<100 {
      let tokens = (0..<5000).map { _ in ContactToken.random(&random) }
      try table.apply(tokens.map { TokenChange($0, TokenEntry(relay: 1, supportsSMS: false, voice: false)) })
      try table.apply(tokens.map { TokenChange($0, nil) })
    }
    #expect(table.count == 0)
    #expect(table.byteCount <= bytes)
  }

  @Test func `memory that there is not is an error, and changes nothing`() throws {
    let table = try TokenTable()
    let token = ContactToken(high: 1, low: 2)
    try table.apply([TokenChange(token, TokenEntry(relay: 3, supportsSMS: false, voice: true))])
    #expect(throws: TokenTable.OutOfMemory.self) { try table.reserve(1 << 50) }
    #expect(table.entry(of: token)?.relay == 3)
  }

  /// One writer adds, changes and removes, and grows the table many times; readers must never miss what stays, nor see
  /// what was never written.
  @Test func `readers under a writer see whole entries`() async throws {
    let table = try TokenTable()
    var random = SplitMix(11)
    let staying = (0..<2000).map { _ in ContactToken.random(&random) }
    let coming = (0..<40_000).map { _ in ContactToken.random(&random) }
    let never = (0..<2000).map { _ in ContactToken.random(&random) }
    // Every entry of a token has its own number, in both of two states.
    @Sendable func entry(_ index: Int, _ state: Bool) -> TokenEntry {
      TokenEntry(relay: index % 4000, supportsSMS: state, voice: state)
    }
    try table.apply(staying.indices.map { TokenChange(staying[$0], entry($0, false)) })
    let watch = Watch()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<3 {
        group.addTask {
          while !watch.isDone.load(ordering: .relaxed) {
            for (index, found) in table.found(staying).enumerated()
            where found != entry(index, true) && found != entry(index, false) {
              watch.faults.add(1, ordering: .relaxed)
            }
            for (index, found) in table.found(coming).enumerated() {
              if let found, found.relay != index % 4000 || found.supportsSMS != found.voice {
                watch.faults.add(1, ordering: .relaxed)
              }
            }
            for found in table.found(never) where found != nil { watch.faults.add(1, ordering: .relaxed) }
            watch.rounds.add(1, ordering: .relaxed)
            // The tasks of all tests share a few threads.
            await Task.yield()
          }
        }
      }
      group.addTask {
        defer { watch.isDone.store(true, ordering: .relaxed) }
        for round in 0..<6 {
          for first in stride(from: 0, to: coming.count, by: 500) {
            let part = first..<first + 500
            // A failure to write shows as a fault of what is counted below.
            try? table.apply(part.map { TokenChange(coming[$0], round % 2 == 0 ? entry($0, round % 4 == 0) : nil) })
            let changed = staying.indices.lazy.filter { $0 % 7 == round }
            try? table.apply(changed.map { TokenChange(staying[$0], entry($0, first % 1000 == 0)) })
            await Task.yield()
          }
        }
      }
    }
    #expect(watch.faults.load(ordering: .relaxed) == 0)
    #expect(watch.rounds.load(ordering: .relaxed) > 0)
    #expect(table.count == staying.count)
  }
}

extension TokenTable {
  fileprivate var all: [ContactToken: TokenEntry] {
    var all: [ContactToken: TokenEntry] = [:]
    forEach { all[$0] = $1 }
    return all
  }

  /// Looked up as one request.
  fileprivate func found(_ tokens: [ContactToken]) -> [TokenEntry?] {
    var found = [TokenEntry?](repeating: nil, count: tokens.count)
    lookUp(tokens.span) { found[$0] = $1 }
    return found
  }
}

extension ContactToken {
  fileprivate static func random(_ random: inout SplitMix) -> ContactToken {
    ContactToken(high: random.next(), low: UInt16(truncatingIfNeeded: random.next()))
  }
}

extension TokenEntry {
  fileprivate static func random(_ random: inout SplitMix) -> TokenEntry {
    let bits = random.next()
    return TokenEntry(relay: Int(bits % 4), supportsSMS: bits & 16 != 0, voice: bits & 32 != 0)
  }
}

/// The signals between readers and the writer.
private final class Watch: Sendable {
  let isDone = Atomic(false)
  let rounds = Atomic(0)
  let faults = Atomic(0)
}

/// Repeatable random numbers.
private struct SplitMix: RandomNumberGenerator {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

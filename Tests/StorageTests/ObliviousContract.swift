import RelayCore
import Storage
import TestTags
import Testing

/// The outputs of registered contacts, on both back ends.
@Suite(.tags(.stores)) struct ObliviousContract {
  private static let key = ObliviousKeyID(bits: 0xF000_0000_0000_0007)
  private static let otherKey = ObliviousKeyID(bits: 8)

  private static let followed = Timestamp(millis: 1_000_000)

  private static func progress(
    _ store: Store, _ step: Int64, key: ObliviousKeyID = key, ranges: Int = 256, isSwept: Bool = true
  ) async throws -> ObliviousProgress {
    let generation = try await store.storage.directoryPlace().generation
    return ObliviousProgress(
      key: key, place: DirectoryPlace(generation: generation, revision: .max - 1, position: 3), rangesDone: ranges,
      isSwept: isSwept, followed: followed, step: step)
  }

  /// Outputs all over their range; those of neighbours do not lie beside each other.
  private static func contact(_ index: Int) -> ContactOutput {
    ContactOutput(
      ContactToken(high: UInt64(index) << 32, low: 7),
      ObliviousOutput(bits: UInt64(index) &* 0x9E37_79B9_7F4A_7C15))
  }

  private static func contacts(_ range: Range<Int>) -> [ContactOutput] { range.map(contact) }

  private static func outputs(
    _ store: Store, under key: ObliviousKeyID = key, _ prefix: String = "", limit: Int = 10_000,
    since: Timestamp = followed
  ) async throws -> [ObliviousOutput]? {
    let range = try #require(ObliviousPrefix(prefix)).range
    let found = try await store.storage.outputs(under: key, in: range, limit: limit, followedSince: since)
    return found?.map(\.output)
  }

  @Test(arguments: Backend.allCases)
  func `outputs are written with the progress, all or nothing, by whoever knows the last step`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let storage = store.storage
      let before = try await storage.obliviousProgress()
      #expect(before == nil)
      let first = ObliviousChange(added: Self.contacts(0..<3))
      #expect(try await storage.writeOutputs(first, Self.progress(store, 1), over: nil))
      #expect(try await storage.obliviousProgress() == Self.progress(store, 1))
      let second = ObliviousChange(added: Self.contacts(3..<5), removed: [Self.contact(0).token])
      for step in [nil, 0, 2] as [Int64?] {
        #expect(try await !storage.writeOutputs(second, Self.progress(store, 2, isSwept: false), over: step))
      }
      #expect(try await storage.obliviousProgress() == Self.progress(store, 1))
      #expect(try await Self.outputs(store)?.count == 3)
      #expect(try await storage.writeOutputs(second, Self.progress(store, 2, isSwept: false), over: 1))
      #expect(try await storage.obliviousProgress() == Self.progress(store, 2, isSwept: false))
      #expect(try await Self.outputs(store) == Self.contacts(1..<5).map(\.output).sorted())
      // Nothing but how far it has come.
      #expect(try await storage.writeOutputs(ObliviousChange(), Self.progress(store, 3), over: 2))
      #expect(try await Self.outputs(store)?.count == 4)
    }
  }

  @Test(arguments: Backend.allCases)
  func `of 16 that write one step at once, one does`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.writeOutputs(ObliviousChange(), Self.progress(store, 1), over: nil))
      let written = try await withThrowingTaskGroup(of: Bool.self) { group in
        for index in 0..<16 {
          group.addTask {
            let change = ObliviousChange(added: [Self.contact(index)])
            return try await store.storage.writeOutputs(change, Self.progress(store, 2), over: 1)
          }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(written == 1)
      #expect(try await Self.outputs(store)?.count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `pages are ascending, within their prefix, and lead to each other`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let contacts = Self.contacts(1..<300)
      let edges = [
        ContactOutput(ContactToken(high: .max, low: 0), ObliviousOutput(bits: 0)),
        ContactOutput(ContactToken(high: .max, low: 1), ObliviousOutput(bits: .max)),
      ]
      let change = ObliviousChange(added: contacts + edges)
      #expect(try await store.storage.writeOutputs(change, Self.progress(store, 1), over: nil))
      let all = (contacts + edges).map(\.output).sorted()
      #expect(try await Self.outputs(store) == all)
      for digit in "0123456789abcdef" {
        let prefix = try #require(ObliviousPrefix(String(digit)))
        #expect(try await Self.outputs(store, String(digit)) == all.filter { prefix.range.contains($0) })
      }
      #expect(try await Self.outputs(store, limit: 10) == Array(all[..<10]))
      let behind = ObliviousOutput(bits: all[9].bits + 1)...ObliviousOutput(bits: .max)
      let next = try await store.storage.outputs(
        under: Self.key, in: behind, limit: 10, followedSince: Self.followed)
      let expected = (contacts + edges).sorted { $0.output < $1.output }
      #expect(next == Array(expected[10..<20]), "each with its contact")
    }
  }

  @Test(arguments: Backend.allCases)
  func `there are no outputs of another key, nor before every contact has its own`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let nothing = try await Self.outputs(store)
      #expect(nothing == nil)
      #expect(try await store.storage.writeOutputs(ObliviousChange(), Self.progress(store, 1), over: nil))
      #expect(try await Self.outputs(store) == [])
      #expect(try await Self.outputs(store, under: Self.otherKey) == nil)
      let change = ObliviousChange(added: Self.contacts(0..<2))
      #expect(try await store.storage.writeOutputs(change, Self.progress(store, 2, ranges: 255), over: 1))
      #expect(try await Self.outputs(store) == nil)
      // Under another key what was made under this one is none.
      #expect(
        try await store.storage.writeOutputs(ObliviousChange(), Self.progress(store, 3, key: Self.otherKey), over: 2))
      #expect(try await Self.outputs(store, under: Self.otherKey) == [])
      #expect(try await Self.outputs(store) == nil)
      let again = ObliviousChange(added: [Self.contact(1)])
      #expect(try await store.storage.writeOutputs(again, Self.progress(store, 4, key: Self.otherKey), over: 3))
      #expect(try await Self.outputs(store, under: Self.otherKey) == [Self.contact(1).output])
    }
  }

  @Test(arguments: Backend.allCases)
  func `there are no outputs of a directory that is long past, nor of another generation`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let change = ObliviousChange(added: Self.contacts(0..<2))
      #expect(try await store.storage.writeOutputs(change, Self.progress(store, 1), over: nil))
      let later = try await Self.outputs(store, since: Self.followed.adding(.milliseconds(1)))
      #expect(later == nil)
      #expect(try await Self.outputs(store, since: Self.followed.adding(.milliseconds(-1)))?.count == 2)
      // As the restore of an older state does.
      try await store.storage.setAsideOneTimePreKeys(epoch: 100, by: .process, behind: .zero)
      let restored = try await Self.outputs(store)
      #expect(restored == nil)
      #expect(try await store.storage.writeOutputs(ObliviousChange(), Self.progress(store, 2), over: 1))
      #expect(try await Self.outputs(store)?.count == 2)
    }
  }

  @Test(arguments: Backend.allCases)
  func `it is told which tokens have no output, and which have one`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let storage = store.storage
      let known = Self.contacts(0..<25)
      #expect(try await storage.writeOutputs(ObliviousChange(added: known), Self.progress(store, 1), over: nil))
      let asked = (20..<30).map { Self.contact($0).token }
      let missing = try await storage.tokensWithoutOutput(among: asked + asked, under: Self.key)
      #expect(missing.sorted() == Array(asked[5...]))
      #expect(try await storage.tokensWithoutOutput(among: asked, under: Self.otherKey).sorted() == asked)
      #expect(try await storage.tokensWithoutOutput(among: [], under: Self.key).isEmpty)
      var (seen, last): ([ContactToken], ContactToken?) = ([], nil)
      while true {
        let page = try await storage.tokensWithOutput(after: last, limit: 10)
        #expect(page.count <= 10)
        seen += page
        guard let next = page.last else { break }
        last = next
      }
      #expect(seen.count == 25 && Set(seen) == Set(known.map(\.token)))
    }
  }
}

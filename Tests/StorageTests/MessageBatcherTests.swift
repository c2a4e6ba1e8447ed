import RelayCore
import Storage
import Synchronization
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct MessageBatcherTests {
  @Test func `messages that arrive during a write form the next batch, in order`() async throws {
    let store = SlowStore()
    let batcher = MessageBatcher { envelopes, watched throws(StoreError) in try await store.write(envelopes, watched) }
    try await withThrowingTaskGroup { group in
      group.addTask { try await batcher.append([Self.envelope(0)]) }
      try await eventually("the first write began") { store.batches.count == 1 }
      for id in 1...3 {
        group.addTask { try await batcher.append([Self.envelope(2 * id), Self.envelope(2 * id + 1)]) }
      }
      // Nothing shows that the three have been queued; the second write shows it when there is one.
      try await Task.sleep(for: MachineSpeed.allow(.milliseconds(100)))
      store.open()
      try await group.waitForAll()
    }
    #expect(store.batches.count == 2)
    let second = try #require(store.batches.last)
    #expect(second.sorted() == [2, 3, 4, 5, 6, 7])
    // The envelopes of one call stay together.
    for index in stride(from: 0, to: 6, by: 2) { #expect(second[index] + 1 == second[index + 1]) }
  }

  @Test func `an envelope that the store refuses fails its own call only`() async throws {
    let store = SlowStore(refuses: 3)
    let batcher = MessageBatcher { envelopes, watched throws(StoreError) in try await store.write(envelopes, watched) }
    let failed = Collected<Int>()
    await withTaskGroup { group in
      for id in 0..<6 {
        group.addTask {
          do { try await batcher.append([Self.envelope(id)]) } catch { failed.add(id) }
        }
      }
      store.open()
    }
    #expect(failed.values == [3])
  }

  @Test func `a full queue refuses at once`() async throws {
    let store = SlowStore()
    var bounds = MessageBatcher.Bounds()
    bounds.waitingEnvelopesMax = 2
    let batcher = MessageBatcher(bounds: bounds) { envelopes, watched throws(StoreError) in
      try await store.write(envelopes, watched)
    }
    try await withThrowingTaskGroup { group in
      group.addTask { try await batcher.append([Self.envelope(0), Self.envelope(1)]) }
      try await eventually("the first write began") { store.batches.count == 1 }
      await #expect(throws: StoreError.self) { try await batcher.append([Self.envelope(2)]) }
      store.open()
      try await group.waitForAll()
    }
    try await batcher.append([Self.envelope(3)])
    #expect(store.batches == [[0, 1], [3]])
  }

  @Test func `a peer takes its share of the queue, and leaves the rest to others`() async throws {
    let store = SlowStore()
    var bounds = MessageBatcher.Bounds()
    bounds.waitingEnvelopesMax = 8
    let batcher = MessageBatcher(bounds: bounds) { envelopes, watched throws(StoreError) in
      try await store.write(envelopes, watched)
    }
    let (beta, gamma) = (try Sample.relay("beta"), try Sample.relay("gamma"))
    try await withThrowingTaskGroup { group in
      group.addTask { try await batcher.append([Self.envelope(0, from: beta), Self.envelope(1, from: beta)]) }
      try await eventually("the first write began") { store.batches.count == 1 }
      await #expect(throws: StoreError.self) { try await batcher.append([Self.envelope(2, from: beta)]) }
      group.addTask { try await batcher.append([Self.envelope(3, from: gamma)]) }
      group.addTask { try await batcher.append([Self.envelope(4)]) }
      store.open()
      try await group.waitForAll()
    }
    #expect(store.batches.joined().sorted() == [0, 1, 3, 4])
    try await batcher.append([Self.envelope(5, from: beta)])
  }

  @Test func `a batch stays within its bounds unless one call is larger`() async throws {
    let store = SlowStore()
    var bounds = MessageBatcher.Bounds()
    bounds.batchEnvelopesMax = 2
    let batcher = MessageBatcher(bounds: bounds) { envelopes, watched throws(StoreError) in
      try await store.write(envelopes, watched)
    }
    try await withThrowingTaskGroup { group in
      for id in 0..<9 { group.addTask { try await batcher.append([Self.envelope(id)]) } }
      group.addTask { try await batcher.append((10..<15).map { try Self.envelope($0) }) }
      store.open()
      try await group.waitForAll()
    }
    #expect(store.batches.filter { $0.count > 2 } == [[10, 11, 12, 13, 14]])
    #expect(store.batches.joined().count == 14)
  }

  @Test func `each call is told of its own envelopes, in the order of the batch, and of places that it watches`()
    async throws
  {
    let store = SlowStore(refuses: 30)
    let batcher = MessageBatcher { envelopes, watched throws(StoreError) in try await store.write(envelopes, watched) }
    let (mailbox, other) = (try Sample.address(1), try Sample.address(3))
    let appends = CollectedAppends([mailbox])
    try await withThrowingTaskGroup { group in
      group.addTask { try await batcher.append([Self.envelope(0)], watch: appends) }
      try await eventually("the first write began") { store.batches.count == 1 }
      for id in [10, 20] {
        group.addTask {
          try await batcher.append(
            [Self.envelope(id), Sample.envelope(to: other, from: mailbox, id: id), Self.envelope(id + 1)],
            watch: appends)
        }
      }
      // One that fails is told of nothing, and one without a watch has nobody to be told.
      group.addTask {
        await #expect(throws: StoreError.self) { try await batcher.append([Self.envelope(30)], watch: appends) }
      }
      group.addTask { try await batcher.append([Self.envelope(40)]) }
      store.open()
      try await group.waitForAll()
    }
    let told = appends.calls
    #expect(told.map { $0.map { $0.place?.sequence } }.first == [0])
    #expect(Set(told.dropFirst().map { $0.map { $0.place?.sequence } }) == [[10, nil, 11], [20, nil, 21]])
    // The order in which they were written at last, each by itself if one of them was refused.
    let written = store.batches.joined().reversed().reduce(into: [Int]()) { ids, id in
      if !ids.contains(id) { ids.insert(id, at: 0) }
    }
    let order = told.joined().compactMap { $0.place.map { Int($0.sequence) } }
    #expect(order == written.filter { order.contains($0) })
  }

  private static func envelope(_ id: Int, from relay: RelayName? = nil) throws -> Envelope {
    try Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: id, relay: relay)
  }
}

/// Remembers batches as the ids of their envelopes, and finishes none before it is opened.
private final class SlowStore: Sendable {
  private let state = Mutex<(batches: [[Int]], isOpen: Bool)>(([], false))
  private let refused: Int?

  init(refuses refused: Int? = nil) { self.refused = refused }

  var batches: [[Int]] { state.withLock { $0.batches } }
  func open() { state.withLock { $0.isOpen = true } }

  /// An id is the place of its envelope.
  func write(_ envelopes: [Envelope], _ watched: Set<DeviceAddress>) async throws(StoreError) -> [Int: AppendedPlace] {
    let ids = envelopes.map { Int($0.timestamp.millis - Sample.noon.millis) }
    state.withLock { $0.batches.append(ids) }
    while !state.withLock({ $0.isOpen }) { await Task.yield() }
    if let refused, ids.contains(refused) { throw .corrupted(reason: "refused") }
    var places: [Int: AppendedPlace] = [:]
    for (index, envelope) in envelopes.enumerated() where watched.contains(envelope.destination) {
      places[index] = AppendedPlace(sequence: Int64(ids[index]), others: [])
    }
    return places
  }
}

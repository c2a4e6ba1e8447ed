import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Relay

/// Reads that wrong credentials ask for.
@Suite(.tags(.unit)) struct DoubtfulReadsTests {
  private let numbers: [AccountNumber]

  init() throws {
    numbers = try (1...3).map { try #require(AccountNumber(e164: "+1555000000\($0)")) }
  }

  private static func account(_ number: AccountNumber) -> Account {
    Account(number: number, devices: [], identityKey: nil, supportsSMS: true, voice: false)
  }

  @Test func `who comes while a read is under way waits for the next, which reads each account once`() async throws {
    let read = Mutex<[[AccountNumber]]>([])
    let gate = Gate()
    defer { gate.open() }
    let reads = DoubtfulReads { numbers throws(StoreError) in
      read.withLock { $0.append(numbers) }
      await gate.wait()
      return numbers.map(Self.account)
    }
    func ask(_ number: AccountNumber) -> Task<Account?, any Error> { Task { try await reads.account(number) } }
    let first = ask(numbers[0])
    try await eventually("the first is under way") { read.withLock(\.count) == 1 }
    let others = (0..<100).map { ask(numbers[$0 % 2]) }
    try await eventually("the others wait") { reads.waiting == 100 }
    gate.open()
    for task in [first] + others { #expect(try await task.value != nil) }
    #expect(read.withLock { $0.map(Set.init) } == [[numbers[0]], [numbers[0], numbers[1]]])
  }

  @Test func `an account that does not exist is none, and one that cannot be read fails those alone who ask for it`()
    async throws
  {
    let asked = Mutex(0)
    let gate = Gate()
    defer { gate.open() }
    let reads = DoubtfulReads { [numbers] batch throws(StoreError) in
      asked.withLock { $0 += 1 }
      await gate.wait()
      if batch.contains(numbers[1]) { throw .corrupted(reason: "a damaged row") }
      return batch.filter { $0 == numbers[0] }.map(Self.account)
    }
    func ask(_ number: AccountNumber) -> Task<Account?, any Error> { Task { try await reads.account(number) } }
    let first = ask(numbers[0])
    try await eventually("the first is under way") { asked.withLock { $0 } == 1 }
    let (present, damaged, absent) = (ask(numbers[0]), ask(numbers[1]), ask(numbers[2]))
    try await eventually("three wait behind it") { reads.waiting == 3 }
    gate.open()
    #expect(try await first.value?.number == numbers[0])
    #expect(try await present.value?.number == numbers[0])
    #expect(try await absent.value == nil)
    await #expect(throws: StoreError.self) { try await damaged.value }
  }
}

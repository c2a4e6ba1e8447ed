import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct ContactSketchTests {
  private static let allowance = LookUpAllowance(first: 20_000, firstDays: 10, perDay: 2_000)

  /// Different tokens, the same in every run.
  private static func tokens(_ indices: Range<Int>) -> [ContactToken] {
    indices.map { index in
      var random = SeededGenerator(seed: UInt64(index))
      return ContactToken(high: random.next(), low: UInt16(truncatingIfNeeded: index))
    }
  }

  private static func sketch() -> ContactSketch {
    var random = SeededGenerator(seed: 7)
    return ContactSketch(begun: Sample.noon, random: &random)
  }

  /// Reference: `openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:8 SIPHASH` of the bytes 0 to
  /// 9.
  @Test func `the hash is SipHash-2-4`() {
    let hash = SipHash(key: (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908))
    #expect(hash.hash(0x0706_0504_0302_0100, 0x0908) == 0x7A5D_BBC5_94DD_B9F3)
  }

  @Test func `of 20,000 contacts all are allowed, and of the next ones one in a hundred at most`() {
    var sketch = Self.sketch()
    for some in stride(from: 0, to: 20_000, by: 1000) {
      guard
        case .allowed(let new) = sketch.spend(
          Self.tokens(some..<some + 1000), within: Self.allowance, at: Sample.noon)
      else {
        Issue.record("refused at \(some)")
        return
      }
      #expect((990...1000).contains(new))
    }
    #expect((19_800...20_000).contains(sketch.count))
    // Even for chosen contacts: one at a time, so that a refused one costs nothing.
    let left = 20_000 - sketch.count
    let allowed = Self.tokens(20_000..<40_000).count {
      sketch.spend([$0], within: Self.allowance, at: Sample.noon) != .refused(retryAfter: .seconds(10 * 86_400))
    }
    #expect(allowed - left <= 200)
    #expect(sketch.byteCount <= 70_000)
  }

  @Test func `contacts that were asked for cost nothing, in any order and repeated`() {
    var sketch = Self.sketch()
    let tokens = Self.tokens(0..<3000)
    #expect(
      sketch.spend([tokens[0], tokens[0], tokens[1]], within: Self.allowance, at: Sample.noon) == .allowed(new: 2))
    _ = sketch.spend(tokens, within: Self.allowance, at: Sample.noon)
    let before = sketch
    #expect(sketch.spend(tokens.reversed() + tokens, within: Self.allowance, at: Sample.noon) == .allowed(new: 0))
    // Also where the allowance is smaller by now.
    let none = LookUpAllowance(first: 0, firstDays: 0, perDay: 0)
    #expect(sketch.spend(tokens, within: none, at: Sample.noon) == .allowed(new: 0))
    #expect(sketch == before)
  }

  @Test func `a refusal counts nothing, and the allowance grows by the day`() {
    let allowance = LookUpAllowance(first: 100, firstDays: 2, perDay: 50)
    var sketch = Self.sketch()
    #expect(sketch.spend(Self.tokens(0..<100), within: allowance, at: Sample.noon) == .allowed(new: 100))
    let before = sketch
    let day: Int64 = 86_400
    for (count, days) in [(50, 2), (51, 3), (100, 3), (1000, 21)] as [(Int, Int64)] {
      let refused = sketch.spend(Self.tokens(100..<100 + count), within: allowance, at: Sample.noon)
      #expect(refused == .refused(retryAfter: .seconds(days * day)))
    }
    #expect(sketch == before)
    let almost = Sample.noon.adding(.seconds(2 * day) - .milliseconds(1))
    let (first, rest) = (Self.tokens(100..<150), Self.tokens(150..<151))
    #expect(sketch.spend(first, within: allowance, at: almost) == .refused(retryAfter: .milliseconds(1)))
    #expect(sketch.spend(first, within: allowance, at: Sample.noon.adding(.seconds(2 * day))) == .allowed(new: 50))
    #expect(
      sketch.spend(rest, within: allowance, at: Sample.noon.adding(.seconds(2 * day)))
        == .refused(retryAfter: .seconds(day)))
    // A clock that stepped back.
    #expect(
      sketch.spend(rest, within: allowance, at: Timestamp(millis: 0)) == .refused(retryAfter: .seconds(3 * day)))
    let never = LookUpAllowance(first: 100, firstDays: 2, perDay: 0)
    #expect(sketch.spend(rest, within: never, at: .init(millis: .max)) == .refused(retryAfter: nil))
  }

  @Test func `a caller that waits as long as it is told is allowed, and not a moment before`() {
    var random = SeededGenerator(seed: 3)
    for _ in 0..<2000 {
      let allowance = LookUpAllowance(
        first: Int.random(in: 0...1000, using: &random), firstDays: Int.random(in: 0...20, using: &random),
        perDay: Int.random(in: 1...100, using: &random))
      let age = Int64.random(in: 0...40 * LookUpAllowance.dayMillis, using: &random)
      let count = allowance.total(atAge: age) + Int.random(in: 1...1000, using: &random)
      guard let wait = allowance.wait(for: count, atAge: age) else {
        Issue.record("never")
        return
      }
      let millis = wait.components.seconds * 1000 + wait.components.attoseconds / 1_000_000_000_000_000
      #expect(allowance.total(atAge: age + millis) >= count)
      #expect(allowance.total(atAge: age + millis - 1) < count)
    }
  }

  @Test func `a sketch forgets the oldest of more contacts than it may remember, and stays small`() {
    let allowance = LookUpAllowance(first: .max, firstDays: 1, perDay: 0)
    var sketch = Self.sketch()
    for some in stride(from: 0, to: 150_000, by: 10_000) {
      _ = sketch.spend(Self.tokens(some..<some + 10_000), within: allowance, at: Sample.noon)
      #expect(sketch.byteCount <= 200 << 10)
    }
    #expect((148_500...150_000).contains(sketch.count))
    // But for those that were taken for others, which are forgotten by now.
    guard case .allowed(0...650) = sketch.spend(Self.tokens(85_000..<150_000), within: allowance, at: Sample.noon),
      case .allowed(980...1000) = sketch.spend(Self.tokens(0..<1000), within: allowance, at: Sample.noon)
    else {
      Issue.record("others are remembered")
      return
    }
  }

  @Test func `a sketch survives its bytes, which hold no token`() throws {
    var sketch = Self.sketch()
    #expect(sketch.byteCount == ContactSketch.headerBytes)
    for count in [0, 1, 200, 5000, 30_000] {
      let tokens = Self.tokens(0..<count)
      let former = sketch.bytes
      _ = sketch.spend(tokens, within: .init(first: .max, firstDays: 1, perDay: 0), at: Sample.noon)
      let bytes = sketch.bytes
      #expect(bytes.count == sketch.byteCount)
      #expect(ContactSketch(bytes: bytes) == sketch)
      // Another header after every change.
      #expect(
        (bytes.prefix(ContactSketch.headerBytes) == former.prefix(ContactSketch.headerBytes)) == (bytes == former))
    }
    // One for each account, whatever it asks for.
    var random = SystemRandomNumberGenerator()
    var (first, second) = (
      ContactSketch(begun: Sample.noon, random: &random), ContactSketch(begun: Sample.noon, random: &random)
    )
    for _ in 0..<1 {
      _ = first.spend(Self.tokens(0..<10), within: Self.allowance, at: Sample.noon)
      _ = second.spend(Self.tokens(0..<10), within: Self.allowance, at: Sample.noon)
    }
    #expect(first.bytes.dropFirst(ContactSketch.headerBytes) != second.bytes.dropFirst(ContactSketch.headerBytes))
  }

  @Test func `other bytes are no sketch`() {
    var sketch = Self.sketch()
    _ = sketch.spend(Self.tokens(0..<300), within: Self.allowance, at: Sample.noon)
    let bytes = sketch.bytes
    for length in 0..<bytes.count where length != ContactSketch.headerBytes {
      #expect(ContactSketch(bytes: Array(bytes.prefix(length))) == nil)
    }
    #expect(ContactSketch(bytes: bytes + [0]) == nil)
    var random = SeededGenerator(seed: 11)
    for _ in 0..<20_000 {
      // Reading it ends, whatever the damage is.
      var damaged = bytes
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        damaged[Int.random(in: 0..<64, using: &random)] = UInt8.random(in: .min ... .max, using: &random)
      }
      if var read = ContactSketch(bytes: damaged) {
        _ = read.spend(Self.tokens(0..<2), within: Self.allowance, at: Sample.noon)
      }
    }
  }
}

@Suite(.tags(.unit)) struct ContactSketchTableTests {
  private static let allowance = LookUpAllowance(first: 110, firstDays: 10, perDay: 0)

  private static func tokens(_ count: Int) -> [ContactToken] {
    (0..<count).map { ContactToken(high: UInt64($0) &* 0x9E37_79B9_7F4A_7C15, low: 0) }
  }

  /// As many new ones, but for those that are taken for others.
  private static func isNew(_ count: Int, _ spending: ContactSpending) -> Bool {
    guard case .allowed(let new) = spending else { return false }
    return (count - 5...count).contains(new)
  }

  @Test func `the table is bounded, and forgets no account that keeps asking`() throws {
    let tokens = Self.tokens(100)
    var table = ContactSketchTable(bytesMax: 100_000)
    let busy = try Sample.number(0)
    #expect(Self.isNew(100, table.spend(tokens, of: busy, within: Self.allowance, at: Sample.noon)))
    for index in 1..<5000 {
      let number = try Sample.number(index)
      #expect(Self.isNew(100, table.spend(tokens, of: number, within: Self.allowance, at: Sample.noon)))
      #expect(table.spend(tokens, of: busy, within: Self.allowance, at: Sample.noon) == .allowed(new: 0))
      // 128 contacts in 256 bytes, and what comes with them.
      #expect(table.count <= 100_000 / 300)
    }
  }

  @Test func `an account that has not asked for long begins anew, and an excess at first is not noted`() throws {
    var table = ContactSketchTable()
    let number = try Sample.number(0)
    #expect(
      table.spend(Self.tokens(130), of: number, within: Self.allowance, at: Sample.noon) == .refused(retryAfter: nil))
    #expect(table.count == 0)
    var now = Sample.noon
    #expect(Self.isNew(60, table.spend(Self.tokens(60), of: number, within: Self.allowance, at: now)))
    // An account that asks is remembered for that long again.
    for _ in 0..<3 {
      now = now.adding(.seconds(40 * 86_400))
      #expect(table.spend(Self.tokens(60), of: number, within: Self.allowance, at: now) == .allowed(new: 0))
    }
    now = now.adding(.seconds(40 * 86_400) + .milliseconds(1))
    #expect(Self.isNew(60, table.spend(Self.tokens(60), of: number, within: Self.allowance, at: now)))
  }
}

import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.unit)) struct SecretSealerTests {
  private let first = SecretBytes(Array(repeating: 1, count: 32))
  private let second = SecretBytes(Array(repeating: 2, count: 32))
  private let secret = Secret("c2lnbmFsaW5nIGtleQ==")

  private func refusal(_ body: () throws -> Void) -> String? {
    let error = #expect(throws: StoreError.self) { try body() }
    guard case .corrupted(let reason) = error else { return nil }
    return reason
  }

  @Test(arguments: ["", "a", "\u{1}b", "\0", "\u{FF}\u{1F600}", "c2ln"])
  func `a sealed text opens, whatever it says`(_ text: String) throws {
    let account = try Sample.number(1)
    for sealer in [SecretSealer(current: first), .none] {
      #expect(try sealer.open(sealer.seal(Secret(text), of: account), of: account) == Secret(text))
    }
  }

  @Test func `a sealed text shows nothing of the secret, and no two are equal`() throws {
    let account = try Sample.number(1)
    let sealer = SecretSealer(current: first)
    let sealed = try (0..<100).map { _ in try sealer.seal(secret, of: account) }
    #expect(Set(sealed).count == 100)
    let clear = Array(secret.value.utf8)
    #expect(sealed.allSatisfy { !$0.contains(clear.prefix(4)) })
    #expect(sealer.isSealing)
  }

  @Test func `without a key a text is stored as it is, and anyone can read it`() throws {
    let account = try Sample.number(1)
    let stored = try SecretSealer.none.seal(secret, of: account)
    #expect(stored == Array(secret.value.utf8))
    #expect(try SecretSealer(current: first).open(stored, of: account) == secret)
    #expect(!SecretSealer.none.isSealing)
  }

  @Test func `a sealed text opens for its account alone`() throws {
    let sealer = SecretSealer(current: first)
    let stored = try sealer.seal(secret, of: Sample.number(1))
    #expect(refusal { _ = try sealer.open(stored, of: Sample.number(2)) } == "a sealed secret does not open")
  }

  @Test func `a changed text does not open`() throws {
    let (sealer, account) = (SecretSealer(current: first), try Sample.number(1))
    let stored = try sealer.seal(secret, of: account)
    for index in stored.indices.dropFirst() {
      var altered = stored
      altered[index] ^= 1
      #expect(refusal { _ = try sealer.open(altered, of: account) } != nil)
    }
    for count in 1..<stored.count {
      #expect(refusal { _ = try sealer.open(Array(stored.prefix(count)), of: account) } != nil)
    }
  }

  @Test func `a key that is not known is named as the reason, and nothing of it`() throws {
    let account = try Sample.number(1)
    let stored = try SecretSealer(current: first).seal(secret, of: account)
    for sealer in [SecretSealer(current: second), .none] {
      let reason = refusal { _ = try sealer.open(stored, of: account) }
      #expect(reason == "a secret was sealed under another storage.encryption-key")
    }
  }

  @Test func `after a change of key both keys' texts open, and new ones are sealed under the new one`() throws {
    let account = try Sample.number(1)
    let old = try SecretSealer(current: first).seal(secret, of: account)
    let changed = SecretSealer(current: second, former: first)
    #expect(try changed.open(old, of: account) == secret)
    let new = try changed.seal(secret, of: account)
    #expect(try SecretSealer(current: second).open(new, of: account) == secret)
    #expect(refusal { _ = try SecretSealer(current: first).open(new, of: account) } != nil)
  }

  @Test func `secrets under the former key are sealed anew, and no others`() throws {
    let account = try Sample.number(1)
    let (old, new) = (SecretSealer(current: first), SecretSealer(current: second))
    let changing = SecretSealer(current: second, former: first)
    let stored = try old.seal(secret, of: account)
    let resealed = try #require(try changing.resealed(stored, of: account))
    #expect(try new.open(resealed, of: account) == secret)
    #expect(try changing.resealed(resealed, of: account) == nil)
    #expect(try changing.resealed(SecretSealer.none.seal(secret, of: account), of: account) == nil)
    let third = SecretSealer(current: SecretBytes(Array(repeating: 3, count: 32)))
    #expect(try changing.resealed(third.seal(secret, of: account), of: account) == nil)
    for sealer in [old, new, .none, SecretSealer(current: first, former: first)] {
      #expect(try sealer.resealed(stored, of: account) == nil)
    }
    #expect(refusal { _ = try changing.resealed(stored.dropLast(), of: account) } == "a sealed secret does not open")
  }

  @Test func `a key of another length is refused before anything is stored`() throws {
    let account = try Sample.number(1)
    let short = SecretSealer(current: SecretBytes([1, 2, 3]))
    #expect(refusal { _ = try short.seal(secret, of: account) } == "a secret could not be sealed")
  }
}

import RelayCore
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct TokenSealerTests {
  private static let key = SecretBytes((0..<32).map { UInt8($0) })

  private static func bytes(_ hex: String) -> [UInt8] {
    stride(from: 0, to: hex.count, by: 2).compactMap { UInt8(hex.dropFirst($0).prefix(2), radix: 16) }
  }

  private static func refusal(_ body: () throws -> Void) -> Bool {
    do { try body() } catch StoreError.corrupted { return true } catch { return false }
    return false
  }

  /// Made by `openssl enc -aes-256-ecb -nopad` of the token and six zeros, the token's first byte before it.
  @Test(
    arguments: [
      ("a0b1c2d3e4f506172839", "a04af458131a140539919d429b04f2116d"),
      ("00000000000000000000", "00f29000b62a499fd0a9f39a6add2e7780"),
      ("ffffffffffffffffffff", "ffb31bcd68978af94e07f2aec4f232e70b"),
    ])
  func `known tokens are sealed as another implementation seals them`(_ token: String, _ stored: String) throws {
    let sealer = try TokenSealer(key: Self.key)
    let plain = try #require(ContactToken(bytes: Self.bytes(token)))
    #expect(try sealer.seal(plain).bytes == Self.bytes(stored))
    #expect(try sealer.open(StoredToken(Self.bytes(stored))) == plain)
    #expect(try sealer.open(packed: Self.bytes(stored)) == [plain])
    #expect(try TokenSealer.plain.seal(plain).bytes == Self.bytes(token))
    #expect(try TokenSealer.plain.open(packed: Self.bytes(token + token)) == [plain, plain])
  }

  @Test(arguments: [0, 1, 2, 3, 1000]) func `many open as each by itself`(_ count: Int) throws {
    for sealer in [try TokenSealer(key: Self.key), .plain] {
      let tokens = (0..<count).map { ContactToken(high: UInt64($0) &* 0x9E37_79B9_7F4A_7C15, low: UInt16($0)) }
      let stored = try sealer.seal(tokens)
      #expect(stored.allSatisfy { $0.bytes.count == sealer.storedBytes })
      #expect(stored.map { $0.bytes[0] } == tokens.map { $0.bytes[0] })
      #expect(try sealer.open(stored) == tokens)
      #expect(try sealer.open(packed: stored.flatMap(\.bytes)) == tokens)
      for (token, stored) in zip(tokens, stored) {
        #expect(try sealer.open(stored) == token)
      }
    }
  }

  @Test func `an altered token, or one under another key, does not open, alone or among others`() throws {
    let sealer = try TokenSealer(key: Self.key)
    let good = try sealer.seal([Sample.token(1), Sample.token(2), Sample.token(3)])
    for index in good[1].bytes.indices {
      var bytes = good[1].bytes
      bytes[index] ^= 1
      let altered = StoredToken(bytes)
      #expect(Self.refusal { _ = try sealer.open(altered) }, "\(index)")
      #expect(Self.refusal { _ = try sealer.open([good[0], altered, good[2]]) }, "\(index)")
    }
    let plain = try TokenSealer.plain.seal(Sample.token(1))
    for strange in [plain, StoredToken([]), StoredToken(good[0].bytes.dropLast()), StoredToken(good[0].bytes + [0])] {
      #expect(Self.refusal { _ = try sealer.open(strange) })
      #expect(Self.refusal { _ = try sealer.open([good[0], strange]) })
    }
    #expect(Self.refusal { _ = try TokenSealer.plain.open(good[0]) })
    let other = try TokenSealer(key: SecretBytes([UInt8](repeating: 9, count: 32)))
    #expect(Self.refusal { _ = try other.open(good[0]) })
    #expect(Self.refusal { _ = try other.open(good) })
    #expect(Self.refusal { _ = try TokenSealer(key: SecretBytes([1, 2, 3])) })
  }

  @Test func `each store has its own key for files, and a store with plain tokens has none`() throws {
    let first = try TokenSealer(key: Self.key).fileKey
    let second = try TokenSealer(key: SecretBytes([UInt8](repeating: 9, count: 32))).fileKey
    #expect(first?.bytes.count == 32 && first != second && first != Self.key)
    #expect(try TokenSealer(key: Self.key).fileKey == first)
    #expect(TokenSealer.plain.fileKey == nil)
  }
}

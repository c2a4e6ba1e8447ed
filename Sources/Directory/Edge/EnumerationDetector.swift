import Crypto
import Metrics
import RelayCore
import RelayMetrics

/// Tells look-ups that look like an enumeration of numbers from look-ups of address books. Counts its findings;
/// `LookUpGate` decides whether to refuse.
///
/// A finding is an indication and no proof. An enumeration that mixes in the numbers of an address book is not
/// noticed. The address book of a small firm with numbers in a row may be noticed.
struct EnumerationDetector: Sendable {
  private let accounts: any AccountStore
  private let hitPoor = RelayMetric.enumeration.suspicious.counter(.hitPoor)
  private let sequential = RelayMetric.enumeration.suspicious.counter(.sequential)

  init(accounts: any AccountStore) { self.accounts = accounts }

  /// Counts what it finds.
  /// - Parameters:
  ///   - hits: of `tokens`.
  ///   - entries: how many contacts the directory has.
  func isSuspicious(_ tokens: [ContactToken], _ hits: ContactHits, directory entries: Int) async -> Bool {
    let isPoor = EnumerationPattern.isHitPoor(asked: tokens.count, known: hits.distinct.count, directory: entries)
    if isPoor { hitPoor.increment() }
    let isSequential = await isSequential(tokens, hits)
    if isSequential { sequential.increment() }
    return isPoor || isSequential
  }

  /// Only accounts here have numbers that are known; of what peers list there are tokens alone.
  private func isSequential(_ tokens: [ContactToken], _ hits: ContactHits) async -> Bool {
    guard tokens.count >= EnumerationPattern.sequentialTokensMin else { return false }
    let sample = hits.localSample(of: tokens, max: EnumerationPattern.sampleMax)
    guard sample.count >= EnumerationPattern.sampleMin else { return false }
    do throws(StoreError) {
      let numbers = try await accounts.accounts(holding: sample)
      return EnumerationPattern.isSequential(numbers, among: tokens)
    } catch {
      // Look-ups are answered without the store, and so is this one: nothing is known against it.
      return false
    }
  }
}

/// The patterns of an enumeration.
enum EnumerationPattern {
  /// Fewer say nothing: whoever enumerates needs large requests, or many.
  private static let poorTokensMin = 500
  /// People have an account because people they know have one too. So in a directory of this size it is rare that not
  /// even one of 100 contacts is registered. In a smaller directory it is not.
  private static let poorEntriesMin = 100_000
  private static let poorShare = 100

  /// Numbers that are drawn at random from a country's: most belong to nobody.
  static func isHitPoor(asked: Int, known: Int, directory entries: Int) -> Bool {
    asked >= poorTokensMin && entries >= poorEntriesMin && known < asked / poorShare
  }

  static let sequentialTokensMin = 100
  static let sampleMax = 8
  static let sampleMin = 4
  /// How far numbers may lie apart to be neighbours.
  private static let reach: Int64 = 4
  /// A number has eight neighbours. If 20,000 numbers are drawn from ten million, one in 9,000 has two of them.
  private static let neighboursMin = 2

  /// Numbers in a row: of at least half of some numbers that were found, `tokens` asks for neighbours too.
  static func isSequential(_ numbers: [AccountNumber], among tokens: [ContactToken]) -> Bool {
    guard numbers.count >= sampleMin else { return false }
    var owners: [ContactToken: [Int]] = [:]
    for (index, number) in numbers.enumerated() {
      for distance in -reach...reach where distance != 0 {
        guard let neighbour = AccountNumber(digits: Int64(number.digits) + distance) else { continue }
        owners[token(of: neighbour), default: []].append(index)
      }
    }
    var found = [Int](repeating: 0, count: numbers.count)
    for token in tokens {
      // A repeated token is no further neighbour.
      for index in owners.removeValue(forKey: token) ?? [] { found[index] += 1 }
    }
    return found.count { $0 >= neighboursMin } * 2 >= numbers.count
  }

  /// Reference 2.1.
  private static func token(of number: AccountNumber) -> ContactToken {
    ContactToken(firstBytesOf: Array(Insecure.SHA1.hash(data: Array(number.e164.utf8))))
  }
}

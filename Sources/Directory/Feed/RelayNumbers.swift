package import RelayCore
import Synchronization

/// Small numbers for relays, as the table keeps them with each token: 0 is this relay, peers' rise from 1.
///
/// A number is never another relay's as long as the process lives: an answer that is written while a peer leaves names
/// the relay that its entry was of.
package final class RelayNumbers: Sendable {
  private struct State {
    /// The names of numbers 1 and up.
    var names: [RelayName] = []
    var numbers: [RelayName: Int] = [:]
    /// Whether a relay was left without a number.
    var hasRefused = false
    /// Whether that was told.
    var isTold = false
  }

  private let state = Mutex(State())

  /// - Returns: nil for 0, and for what was never given out.
  package func name(of number: Int) -> RelayName? {
    state.withLock { $0.names.indices.contains(number - 1) ? $0.names[number - 1] : nil }
  }

  /// The names of 1 and up, ascending: for whoever writes many entries, taken after they were found.
  package var names: [RelayName] { state.withLock { $0.names } }

  /// - Returns: 0 for nil, which is this relay; nil when `name` has no number.
  func known(_ name: RelayName?) -> Int? {
    guard let name else { return 0 }
    return state.withLock { $0.numbers[name] }
  }

  /// The number of `name`, given out now where it has none.
  /// - Returns: 0 for nil, which is this relay; nil when all numbers are given out.
  func number(of name: RelayName?) -> Int? {
    guard let name else { return 0 }
    return state.withLock { state in
      if let number = state.numbers[name] { return number }
      guard state.names.count < TokenEntry.relayMax else {
        state.hasRefused = true
        return nil
      }
      state.names.append(name)
      state.numbers[name] = state.names.count
      return state.names.count
    }
  }

  /// Whether a relay was left without a number: its entries are not in the table.
  var hasRefused: Bool { state.withLock { $0.hasRefused } }

  /// - Returns: whether `hasRefused` has become true since it was asked.
  func hasNewlyRefused() -> Bool {
    state.withLock { state in
      defer { state.isTold = state.hasRefused }
      return state.hasRefused && !state.isTold
    }
  }

  /// Takes over the numbers of a table that was written to a file.
  /// - Parameter names: of 1 and up, at most `TokenEntry.relayMax`.
  /// - Returns: false, with nothing changed, when other numbers have been given out already, or a name comes twice.
  func adopt(_ names: [RelayName]) -> Bool {
    state.withLock { state in
      if state.names.starts(with: names) { return true }
      guard state.names.isEmpty, names.count <= TokenEntry.relayMax else { return false }
      let numbers = Dictionary(names.enumerated().map { ($1, $0 + 1) }) { first, _ in first }
      guard numbers.count == names.count else { return false }
      (state.names, state.numbers) = (names, numbers)
      return true
    }
  }
}

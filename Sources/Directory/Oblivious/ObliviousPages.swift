import RelayCore

/// Reads pages of outputs: some at a time, since all of them come over one connection to the store.
struct ObliviousPages: Sendable {
  /// Pages that are read at once.
  private static let readAtOnce = 4
  /// Requests that are under way or wait.
  private static let requestsMax = 16
  /// Outputs that are older than this are said to be none: nobody keeps them up to date.
  static let ageMax = Duration.seconds(300)

  private let store: any ObliviousStore
  private let clock: WallClock
  private let room = RequestRoom(size: requestsMax, retryAfter: .seconds(1))
  private let turns = RankedTurns(readAtOnce)

  init(store: any ObliviousStore, clock: WallClock) {
    self.store = store
    self.clock = clock
  }

  /// Makes room for a request of `account`. To be asked before anything is charged.
  /// - Throws: `.unavailable` when too many wait already, or the account's request before is not done.
  func admit(_ account: AccountNumber) throws(Problem) -> RequestRoom.Place { try room.enter(account, taking: 1) }

  /// - Parameters:
  ///   - range: nil: nothing can lie there.
  ///   - place: held until they are read.
  /// - Throws: `.unavailable` also while not every contact has its output, and where they are old.
  func outputs(
    under key: ObliviousKeyID, in range: ClosedRange<ObliviousOutput>?, in place: RequestRoom.Place
  ) async throws(Problem) -> [ContactOutput] {
    guard let range else { return [] }
    await turns.take()
    defer {
      turns.giveBack()
      withExtendedLifetime(place) {}
    }
    let outputs: [ContactOutput]?
    do throws(StoreError) {
      outputs = try await store.outputs(
        under: key, in: range, limit: ObliviousCodec.outputsPerPage,
        followedSince: clock.now().adding(.zero - Self.ageMax))
    } catch {
      throw Problem(error)
    }
    guard let outputs else { throw Problem(.unavailable, retryAfter: .seconds(10)) }
    return outputs
  }
}

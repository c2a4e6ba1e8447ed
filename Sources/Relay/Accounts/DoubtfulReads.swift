import RelayCore
import RelayWork

/// Reads of accounts whose remembered entry would refuse somebody.
///
/// Wrong credentials are cheap to send. So one statement at a time is under way for all of them, and whoever comes
/// meanwhile waits for the next: an account is read once in it, however many ask, and never before they asked.
struct DoubtfulReads: Sendable {
  typealias Read = @Sendable ([AccountNumber]) async throws(StoreError) -> [Account]

  private let calls: BatchedCalls<AccountNumber, Result<Account?, StoreError>>

  /// Some hundred accounts are one statement.
  private static let bounds = BatchQueue<Member>.Bounds(batch: .init(items: 500), waiting: .init(items: 20_000))
  private typealias Member = BatchedCalls<AccountNumber, Result<Account?, StoreError>>.Member

  /// - Parameter read: answers with those of the accounts that exist.
  init(read: @escaping Read) {
    calls = BatchedCalls(bounds: Self.bounds, size: { _ in .init(items: 1) }) { batch in
      await Self.answer(batch, read)
    }
  }

  /// Callers behind the statement that is under way.
  var waiting: Int { calls.waiting.items }

  /// - Returns: nil when there is no such account.
  func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    guard let outcome = await calls.outcome(of: number) else {
      throw .unavailable(reason: "too many reads of accounts wait")
    }
    return try outcome.get()
  }

  private static func answer(_ batch: [Member], _ read: Read) async {
    let askers = Dictionary(grouping: batch, by: \.call)
    do throws(StoreError) {
      let accounts = try await read(Array(askers.keys))
      let found = Dictionary(accounts.map { ($0.number, $0) }) { $1 }
      for member in batch { member.end(with: .success(found[member.call])) }
    } catch .corrupted where askers.count > 1 {
      // Something of one of them: it fails those alone who ask for it.
      for members in askers.values { await answer(members, read) }
    } catch {
      for member in batch { member.end(with: .failure(error)) }
    }
  }
}

import RelayCore
import Synchronization

/// How many transfers one process runs at once: each holds a connection, a file and some buffers.
final class TransferSlots: Sendable {
  private struct Taken {
    var downloads = 0
    var uploads = 0
    var uploadsByAccount: [AccountNumber: Int] = [:]
  }

  /// A slot that is held; given back with its last holder.
  final class Lease: Sendable {
    private let giveBack: @Sendable () -> Void
    fileprivate init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }
    deinit { giveBack() }
  }

  private static let uploadsMax = 256
  /// So that one account, with all the URLs it can ask for, leaves room for the others.
  private static let uploadsPerAccountMax = 16
  private static let downloadsMax = 1024
  private let taken = Mutex(Taken())

  /// - Throws: `.unavailable` when all are taken, `.rateLimited` when the account has its share.
  func upload(of account: AccountNumber) throws(Problem) -> Lease {
    let refusal: Problem? = taken.withLock { taken in
      let own = taken.uploadsByAccount[account] ?? 0
      guard own < Self.uploadsPerAccountMax else { return Problem(.rateLimited, retryAfter: .seconds(5)) }
      guard taken.uploads < Self.uploadsMax else { return Problem(.unavailable, retryAfter: .seconds(5)) }
      taken.uploads += 1
      taken.uploadsByAccount[account] = own + 1
      return nil
    }
    if let refusal { throw refusal }
    return Lease { [self] in
      taken.withLock { taken in
        taken.uploads -= 1
        let rest = (taken.uploadsByAccount[account] ?? 1) - 1
        taken.uploadsByAccount[account] = rest > 0 ? rest : nil
      }
    }
  }

  /// - Throws: `.unavailable` when all are taken.
  func download() throws(Problem) -> Lease {
    let isTaken = taken.withLock { taken in
      guard taken.downloads < Self.downloadsMax else { return false }
      taken.downloads += 1
      return true
    }
    guard isTaken else { throw Problem(.unavailable, retryAfter: .seconds(5)) }
    return Lease { [self] in taken.withLock { $0.downloads -= 1 } }
  }
}

import RelayCore
import Synchronization

/// How many downloads one process runs at once, and how many of them one reader and one blob may take.
package struct DownloadBounds: Sendable {
  let all: Int
  /// Downloads of one client address. Many clients may stand behind one, but no address takes every place.
  let perAddress: Int
  /// Downloads of one blob: a URL can be given to any number of addresses.
  let perBlob: Int

  package init(all: Int = 1024, perAddress: Int = 128, perBlob: Int = 256) {
    self.all = all
    self.perAddress = perAddress
    self.perBlob = perBlob
  }
}

/// How many transfers one process runs at once: each holds a connection, a file and some buffers.
final class TransferSlots: Sendable {
  private struct Taken {
    var downloads = 0
    var uploads = 0
    var uploadsByAccount = Shares<AccountNumber>()
    var downloadsByAddress: AddressShares
    var downloadsByBlob = Shares<AttachmentID>()
  }

  /// How many each has; who has none is not in it.
  private struct Shares<Key: Hashable> {
    private var counts: [Key: Int] = [:]
    subscript(_ key: Key) -> Int {
      get { counts[key] ?? 0 }
      set { counts[key] = newValue > 0 ? newValue : nil }
    }
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
  private let downloads: DownloadBounds
  private let taken: Mutex<Taken>

  init(downloads: DownloadBounds) {
    self.downloads = downloads
    taken = Mutex(Taken(downloadsByAddress: AddressShares(perAddress: downloads.perAddress)))
  }

  /// - Throws: `.unavailable` when all are taken, `.rateLimited` when the account has its share.
  func upload(of account: AccountNumber) throws(Problem) -> Lease {
    let refusal: Problem? = taken.withLock { taken in
      guard taken.uploadsByAccount[account] < Self.uploadsPerAccountMax else {
        return Problem(.rateLimited, retryAfter: .seconds(5))
      }
      guard taken.uploads < Self.uploadsMax else { return Problem(.unavailable, retryAfter: .seconds(5)) }
      taken.uploads += 1
      taken.uploadsByAccount[account] += 1
      return nil
    }
    if let refusal { throw refusal }
    return Lease { [self] in
      taken.withLock { taken in
        taken.uploads -= 1
        taken.uploadsByAccount[account] -= 1
      }
    }
  }

  /// - Throws: `.unavailable` when all, or the share of the address or of the blob, are taken.
  func download(of blob: AttachmentID, by origin: RequestOrigin) throws(Problem) -> Lease {
    let isTaken = taken.withLock { taken in
      guard taken.downloads < downloads.all, taken.downloadsByAddress.hasRoom(for: origin),
        taken.downloadsByBlob[blob] < downloads.perBlob
      else { return false }
      taken.downloads += 1
      taken.downloadsByAddress.take(origin)
      taken.downloadsByBlob[blob] += 1
      return true
    }
    guard isTaken else { throw Problem(.unavailable, retryAfter: .seconds(5)) }
    return Lease { [self] in
      taken.withLock { taken in
        taken.downloads -= 1
        taken.downloadsByAddress.giveBack(origin)
        taken.downloadsByBlob[blob] -= 1
      }
    }
  }
}

import Glibc
import RelayCore
import RelayHTTP

/// A file that is being read from its beginning, with its checksum. Ends with the object.
final class SnapshotReader {
  private let descriptor: Int32
  /// The length of the file when it was opened: it is never written in its place.
  private let fileBytes: Int
  /// The same; of an encrypted file, what it was made of.
  let bytes: Int
  private let cipher: SnapshotCipher?
  /// Bytes that have been decrypted, and not been asked for yet.
  private var opened: ArraySlice<UInt8> = []
  private var chunks: UInt64 = 0
  /// The bytes left of an encrypted file before its tail.
  private var left = 0
  private var sum = WordChecksum()
  var checksum: UInt64 { sum.value }
  /// As `FileFacts`.
  let age: Duration?

  /// - Parameter key: decrypts what is read.
  /// - Throws: also for a file that is not encrypted, with a key.
  init(path: String, under key: SecretBytes?) throws(SnapshotFailure) {
    // A path that is no file, such as a pipe without a writer, must not keep the caller waiting.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { throw errno == ENOENT ? SnapshotFailure.missing : .last("open") }
    do throws(SnapshotFailure) {
      guard let facts = FileFacts(descriptor) else { throw .last("fstat") }
      guard facts.isOwn else { throw .unusable("others than its owner may write it") }
      (fileBytes, age) = (facts.byteCount, facts.age)
      guard let key else {
        (bytes, cipher) = (fileBytes, nil)
        self.descriptor = descriptor
        return
      }
      let count = min(fileBytes, SnapshotFormat.sealedHeadBytes)
      let head = try SealedHead(Self.read(count) { Glibc.read(descriptor, $0, $1) })
      guard let plain = SnapshotFormat.plainBytes(ofSealed: fileBytes) else { throw .unusable("its end is missing") }
      (bytes, cipher) = (plain, SnapshotCipher(key, salt: head.salt))
      left = fileBytes - SnapshotFormat.sealedHeadBytes - SnapshotFormat.sealedTailBytes
      self.descriptor = descriptor
    } catch {
      close(descriptor)
      throw error
    }
  }

  deinit { close(descriptor) }

  /// The end of the file; it does not count as read.
  func tail() throws(SnapshotFailure) -> [UInt8] {
    let count = cipher == nil ? SnapshotFormat.tailBytes : SnapshotFormat.sealedTailBytes
    guard fileBytes >= count else { throw .unusable("its end is missing") }
    let tail = try Self.read(count, from: fileBytes - count, of: descriptor)
    guard let cipher else { return tail }
    return try cipher.open(tail, number: SnapshotCipher.tailNumber)
  }

  /// Adds to the checksum what the tail says beside it.
  func count(_ tail: SnapshotTail) { tail.countedBytes.withUnsafeBytes { sum.add($0) } }

  /// - Parameter count: a multiple of 8, within the file.
  func next(_ count: Int) throws(SnapshotFailure) -> [UInt8] {
    let part: [UInt8]
    if let cipher { part = try decrypted(count, cipher) } else { part = try readOn(count) }
    part.withUnsafeBytes { sum.add($0) }
    return part
  }

  /// - Returns: `count` bytes and what fills them up.
  func nextFilled(_ count: Int) throws(SnapshotFailure) -> [UInt8] { try next(SnapshotFormat.filled(count)) }

  private func decrypted(_ count: Int, _ cipher: SnapshotCipher) throws(SnapshotFailure) -> [UInt8] {
    var part: [UInt8] = []
    part.reserveCapacity(count)
    while part.count < count {
      if opened.isEmpty {
        let chunk = min(left, SnapshotCipher.chunkBytes + SnapshotCipher.tagBytes)
        guard chunk > 0 else { throw .unusable("its end is missing") }
        opened = try cipher.open(readOn(chunk), number: chunks)[...]
        (chunks, left) = (chunks + 1, left - chunk)
      }
      let more = opened.prefix(count - part.count)
      part += more
      opened = opened.dropFirst(more.count)
    }
    return part
  }

  private func readOn(_ count: Int) throws(SnapshotFailure) -> [UInt8] {
    let descriptor = descriptor
    return try Self.read(count) { buffer, count in Glibc.read(descriptor, buffer, count) }
  }

  private static func read(_ count: Int, from offset: Int, of descriptor: Int32) throws(SnapshotFailure) -> [UInt8] {
    var place = offset
    return try read(count) { buffer, count in
      let more = pread(descriptor, buffer, count, off_t(place))
      place += max(0, more)
      return more
    }
  }

  /// - Parameter call: takes where to, and how many bytes are left; returns as `read` does.
  private static func read(
    _ count: Int, _ call: (UnsafeMutableRawPointer?, Int) -> Int
  ) throws(SnapshotFailure) -> [UInt8] {
    var failure: SnapshotFailure?
    let part = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      while filled < count {
        let more = call(buffer.baseAddress.map { UnsafeMutableRawPointer($0 + filled) }, count - filled)
        if more < 0, errno == EINTR { continue }
        guard more > 0 else {
          failure = more < 0 ? .last("read") : .unusable("its end is missing")
          return
        }
        filled += more
      }
    }
    if let failure { throw failure }
    return part
  }
}

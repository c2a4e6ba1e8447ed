import Glibc
import RelayCore

/// A file that is being written, one part after the other, with its checksum. Ends with the object.
final class SnapshotWriter {
  private let path: String
  private let lock: Int32
  private let descriptor: Int32
  private let cipher: SnapshotCipher?
  /// The bytes that make no whole chunk yet.
  private var rest: [UInt8] = []
  private var chunks: UInt64 = 0
  /// The length of the file so far.
  private(set) var bytes = 0
  private var sum = WordChecksum()

  /// Makes an empty file beside `place`, which is this process's until the object ends.
  /// - Parameter key: encrypts what is written.
  /// - Throws: `.busy` when another process writes there.
  init(place: String, under key: SecretBytes?) throws(SnapshotFailure) {
    // A file of its own, since the one that is written gets another name.
    let lock = open(place + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard lock >= 0 else { throw .last("open") }
    guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
      let failure: SnapshotFailure = errno == EWOULDBLOCK ? .busy : .last("flock")
      close(lock)
      throw failure
    }
    let path = place + ".new"
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      let failure = SnapshotFailure.last("open")
      close(lock)
      throw failure
    }
    let salt = SnapshotCipher.newSalt()
    self.path = path
    self.lock = lock
    self.descriptor = descriptor
    cipher = key.map { SnapshotCipher($0, salt: salt) }
    // Somebody may have left it there with another mode.
    guard fchmod(descriptor, 0o600) == 0 else { throw .last("fchmod") }
    if key != nil { try write(SealedHead(salt: salt).bytes) }
  }

  /// Closing gives the lock up, and so does the end of the process, however it comes.
  deinit {
    close(descriptor)
    close(lock)
  }

  /// Leaves nothing behind, where the file was not finished.
  func discard() { unlink(path) }

  /// - Parameter part: a multiple of 8 bytes.
  func append(_ part: some Collection<UInt8>) throws(SnapshotFailure) {
    let part = Array(part)
    part.withUnsafeBytes { sum.add($0) }
    guard let cipher else { return try write(part) }
    rest += part
    while rest.count >= SnapshotCipher.chunkBytes { try writeChunk(SnapshotCipher.chunkBytes, cipher) }
  }

  func appendFilled(_ part: [UInt8]) throws(SnapshotFailure) {
    try append(part + [UInt8](repeating: 0, count: SnapshotFormat.filled(part.count) - part.count))
  }

  /// Nothing comes after it.
  func appendTail(entries: Int, namesBytes: Int) throws(SnapshotFailure) {
    let counted = SnapshotTail(entries: entries, namesBytes: namesBytes, checksum: 0).countedBytes
    counted.withUnsafeBytes { sum.add($0) }
    let tail = SnapshotTail(entries: entries, namesBytes: namesBytes, checksum: sum.value).bytes
    guard let cipher else { return try write(tail) }
    if !rest.isEmpty { try writeChunk(rest.count, cipher) }
    try write(cipher.seal(tail[...], number: SnapshotCipher.tailNumber))
  }

  private func writeChunk(_ count: Int, _ cipher: SnapshotCipher) throws(SnapshotFailure) {
    try write(cipher.seal(rest[..<count], number: chunks))
    chunks += 1
    rest.removeFirst(count)
  }

  /// Puts the file into its place: a reader sees the former or this one, also after a power cut.
  func finish(as place: String) throws(SnapshotFailure) {
    guard fsync(descriptor) == 0 else { throw .last("fsync") }
    guard rename(path, place) == 0 else { throw .last("rename") }
    let end = place.lastIndex(of: "/")
    let folder = open(end.map { String(place[...$0]) } ?? ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { throw .last("open") }
    defer { close(folder) }
    guard fsync(folder) == 0 else { throw .last("fsync") }
  }

  private func write(_ part: [UInt8]) throws(SnapshotFailure) {
    guard part.withUnsafeBytes({ writeAll($0) }) else { throw .last("write") }
    bytes += part.count
  }

  private func writeAll(_ part: UnsafeRawBufferPointer) -> Bool {
    var written = 0
    while written < part.count {
      let count = Glibc.write(descriptor, part.baseAddress.map { $0 + written }, part.count - written)
      if count < 0, errno != EINTR { return false }
      written += max(0, count)
    }
    return true
  }
}

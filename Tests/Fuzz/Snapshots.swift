import Glibc

@testable import Directory
@testable import RelayCore

/// The directory's file. The first byte says whether its checksum is made right, so that what lies behind it is
/// reached, and whether the file is encrypted.
func fuzzSnapshot(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let key = selector % 4 >= 2 ? SecretBytes([UInt8](repeating: 7, count: 32)) : nil
  let plain = selector % 2 == 0 ? body : mended(body)
  guard let file = key.map({ sealed(plain, under: $0) }) ?? plain, write(file) else { return }
  guard let contents = try? SnapshotFile.read(path, under: key) else { return }
  demand(contents.table.count * SnapshotFormat.entryBytes <= file.count, "a table has no more than the file")
  demand(contents.names.count <= TokenEntry.relayMax, "names are bounded")
}

/// Memory, where there is some: a disk would be worn out.
private let path = "\(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")/relay-fuzz-\(getpid())"

private func write(_ file: [UInt8]) -> Bool {
  let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
  guard descriptor >= 0 else { return false }
  defer { close(descriptor) }
  return Glibc.write(descriptor, file, file.count) == file.count
}

/// With magic numbers, version, and the checksum of what it holds: 64 bytes, any number of 8, and 32.
private func mended(_ body: [UInt8]) -> [UInt8] {
  var file = Array(body.prefix(body.count & ~7))
  guard file.count >= SnapshotFormat.headBytes + SnapshotFormat.tailBytes else { return body }
  let tail = file.count - SnapshotFormat.tailBytes
  set(SnapshotFormat.magic, at: 0, of: &file)
  set(SnapshotFormat.version, at: 8, of: &file)
  var sum = WordChecksum()
  file[..<(tail + 16)].withUnsafeBytes { sum.add($0) }
  set(sum.value, at: tail + 16, of: &file)
  set(SnapshotFormat.magic, at: tail + 24, of: &file)
  return file
}

private func set(_ word: UInt64, at offset: Int, of file: inout [UInt8]) {
  var bytes: [UInt8] = []
  bytes.append(littleEndian: word)
  file.replaceSubrange(offset..<offset + 8, with: bytes)
}

private func sealed(_ plain: [UInt8], under key: SecretBytes) -> [UInt8]? {
  guard plain.count >= SnapshotFormat.tailBytes else { return plain }
  let salt = [UInt8](repeating: 3, count: SnapshotCipher.saltBytes)
  let cipher = SnapshotCipher(key, salt: salt)
  let (content, tail) = (plain.dropLast(SnapshotFormat.tailBytes), plain.suffix(SnapshotFormat.tailBytes))
  guard let chunk = content.isEmpty ? [] : try? cipher.seal(content, number: 0),
    let end = try? cipher.seal(tail, number: SnapshotCipher.tailNumber)
  else { return nil }
  return SealedHead(salt: salt).bytes + chunk + end
}

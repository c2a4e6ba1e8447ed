package import RelayCore

/// A leaf that our CA issued, as `relay ca list` shows it.
package struct IssuedLeaf: Sendable, Equatable {
  /// As `Certificate.serial`.
  let serial: [UInt8]
  package let made: Timestamp
  package let expires: Timestamp
  package fileprivate(set) var isRevoked: Bool

  /// In hexadecimal.
  package var serialText: String { serial.hex }
}

/// The leaves that our CA issued and that have not ended: the file `issued.json`.
struct IssuedLeaves: Sendable, Equatable {
  /// One every two hours has about 1,000 at a time. The file stays below `SecretFile.bytesMax`.
  static let leavesMax = 2000

  /// In the order of their making.
  private(set) var leaves: [IssuedLeaf] = []
  /// The sequence of the last statement that was made of this list. A statement that is newer was made of another one,
  /// as where this was put back from a backup.
  var stated: Int64 = 0

  /// The serial numbers of revoked leaves that may not have ended.
  var revokedSerials: [[UInt8]] {
    leaves.filter(\.isRevoked).map(\.serial).sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// Adds one unless it is known. The oldest that is not revoked goes when there are too many.
  mutating func note(serial: [UInt8], made: Timestamp, expires: Timestamp) {
    guard !leaves.contains(where: { $0.serial == serial }) else { return }
    leaves.append(IssuedLeaf(serial: serial, made: made, expires: expires, isRevoked: false))
    if leaves.count > Self.leavesMax, let oldest = leaves.firstIndex(where: { !$0.isRevoked }) {
      leaves.remove(at: oldest)
    }
  }

  /// - Returns: false when there is no such leaf.
  mutating func revoke(_ serial: [UInt8]) -> Bool {
    guard let index = leaves.firstIndex(where: { $0.serial == serial }) else { return false }
    leaves[index].isRevoked = true
    return true
  }

  /// Forgets those that have ended: they prove nothing anyway. A revoked one is kept for as long again, since a clock
  /// that is ahead would make it valid once it is right.
  mutating func prune(now: Timestamp) {
    leaves.removeAll { leaf in
      (leaf.isRevoked ? leaf.expires.adding(CertificateAuthority.leafLifetime) : leaf.expires) < now
    }
  }

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("stated")
    writer.integer(stated)
    writer.key("leaves")
    writer.beginArray()
    for leaf in leaves {
      writer.beginObject()
      writer.key("serial")
      writer.string(leaf.serialText)
      writer.key("made")
      writer.integer(leaf.made.millis)
      writer.key("expires")
      writer.integer(leaf.expires.millis)
      writer.key("revoked")
      writer.boolean(leaf.isRevoked)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> IssuedLeaves {
    var reader = JSONReader(json)
    var issued = IssuedLeaves()
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "stated") {
        issued.stated = try reader.integer() ?? 0
        continue
      }
      guard reader.matches(key, "leaves") else {
        try reader.skip()
        continue
      }
      try reader.beginArray()
      while try reader.nextElement() {
        guard issued.leaves.count < leavesMax else { throw .tooLarge }
        issued.leaves.append(try reader.issuedLeaf())
      }
    }
    try reader.finish()
    return issued
  }
}

extension JSONReader {
  fileprivate mutating func issuedLeaf() throws(JSONError) -> IssuedLeaf {
    var serial: [UInt8]?
    var (made, expires): (Int64?, Int64?)
    var isRevoked = false
    try beginObject()
    while let key = try nextKey() {
      if matches(key, "serial") {
        serial = try string().flatMap { [UInt8](hex: $0) }
      } else if matches(key, "made") {
        made = try integer()
      } else if matches(key, "expires") {
        expires = try integer()
      } else if matches(key, "revoked") {
        isRevoked = try boolean() ?? false
      } else {
        try skip()
      }
    }
    guard let serial, let made, let expires else { throw .wrongShape }
    return IssuedLeaf(
      serial: serial, made: Timestamp(millis: made), expires: Timestamp(millis: expires), isRevoked: isRevoked)
  }
}

import RelayCore

/// The WebPush topic of a room: a push that still waits is replaced by the next one of its room (reference 7.4).
package enum RoomTopic {
  /// 30 characters of base64url: RFC 8030 allows no padding, which the reference leaves on.
  package static func topic(of roomID: String) -> String {
    Base64.encodeURLSafe(BLAKE2s.digest(Array(roomID.utf8), length: 22))
  }
}

/// BLAKE2s without a key (RFC 7693), for topics: no library of ours has it.
private enum BLAKE2s {
  private static let initial: [UInt32] = [
    0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19,
  ]
  private static let order: [[Int]] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
  ]
  /// Columns, then diagonals.
  private static let lanes: [(Int, Int, Int, Int)] = [
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
  ]
  private static let blockBytes = 64

  /// - Parameter length: of the digest, 1 to 32 bytes.
  static func digest(_ message: [UInt8], length: Int) -> [UInt8] {
    var state = initial
    state[0] ^= 0x0101_0000 ^ UInt32(length)
    var offset = 0
    repeat {
      let end = min(offset + blockBytes, message.count)
      let block = message[offset..<end] + repeatElement(0, count: blockBytes - (end - offset))
      compress(&state, Array(block), counted: UInt64(end), isLast: end == message.count)
      offset = end
    } while offset < message.count
    return Array(state.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }.prefix(length))
  }

  private static func compress(_ state: inout [UInt32], _ block: [UInt8], counted: UInt64, isLast: Bool) {
    let words = stride(from: 0, to: blockBytes, by: 4).map { index in
      block[index..<index + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    }
    var work = state + initial
    work[12] ^= UInt32(truncatingIfNeeded: counted)
    work[13] ^= UInt32(truncatingIfNeeded: counted >> 32)
    if isLast { work[14] = ~work[14] }
    for round in order {
      for (index, lane) in lanes.enumerated() {
        mix(&work, lane, words[round[2 * index]], words[round[2 * index + 1]])
      }
    }
    for index in 0..<8 { state[index] ^= work[index] ^ work[index + 8] }
  }

  private static func mix(_ work: inout [UInt32], _ lane: (Int, Int, Int, Int), _ first: UInt32, _ second: UInt32) {
    let (a, b, c, d) = lane
    for (word, turns) in [(first, (UInt32(16), UInt32(12))), (second, (UInt32(8), UInt32(7)))] {
      work[a] = work[a] &+ work[b] &+ word
      work[d] = turned(work[d] ^ work[a], turns.0)
      work[c] = work[c] &+ work[d]
      work[b] = turned(work[b] ^ work[c], turns.1)
    }
  }

  private static func turned(_ word: UInt32, _ bits: UInt32) -> UInt32 { word >> bits | word << (32 - bits) }
}

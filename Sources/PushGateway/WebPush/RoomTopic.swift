import RelayCore

/// The WebPush topic of a room: a push that still waits is replaced by the next one of its room (reference 7.4).
package enum RoomTopic {
  /// 30 characters of base64url: RFC 8030 allows no padding, which the reference leaves on.
  package static func topic(of roomID: String) -> String {
    Base64.encodeURLSafe(BLAKE2s.digest(Array(roomID.utf8), length: 22))
  }
}

import RelayCore
import Synchronization

/// A message that this process has just stored, on its way to a connection here. In memory until it is written to the
/// socket, or left to be read.
final class FreshMessage: Sendable {
  let queued: QueuedEnvelope
  /// As `AppendedPlace.others`.
  let others: [Int64]
  private let room: FreshRoom

  var sequence: Int64 { queued.sequence }
  var byteCount: Int { queued.envelope.byteCount }

  /// - Returns: nil where the message has to be read: its place is not known, or there is no room.
  init?(_ message: AppendedEnvelope, in room: FreshRoom) {
    guard let place = message.place, let others = place.others, room.take(message.envelope.byteCount) else {
      return nil
    }
    queued = QueuedEnvelope(sequence: place.sequence, envelope: message.envelope)
    self.others = others
    self.room = room
  }

  deinit { room.giveBack(queued.envelope.byteCount) }
}

/// The memory of one process for fresh messages. A message that finds no room is read from the store.
final class FreshRoom: Sendable {
  private let bytes = Atomic(0)
  private let bytesMax: Int

  init(bytesMax: Int) { self.bytesMax = bytesMax }

  fileprivate func take(_ count: Int) -> Bool {
    let weight = count + Self.overheadBytes
    guard bytes.add(weight, ordering: .relaxed).newValue <= bytesMax else {
      bytes.subtract(weight, ordering: .relaxed)
      return false
    }
    return true
  }

  fileprivate func giveBack(_ count: Int) { bytes.subtract(count + Self.overheadBytes, ordering: .relaxed) }

  /// Bytes that are taken now.
  var taken: Int { bytes.load(ordering: .relaxed) }

  /// The weight of a message beside its bodies.
  private static let overheadBytes = 256
}

import Crypto
import Metrics
import RelayCore
import RelayHTTP
import RelayWork

// The loss ledger's side: marks, and what becomes of what they mark (docs/federation.md, "The loss ledger").

extension HandOverLedger {
  /// The crossings of `handOver` in the loss ledger, in the order of its messages. They are equal exactly if the peer
  /// takes the messages for the same. None if the hand-over has no time.
  func crossings(of handOver: HandOver, to peer: RelayName) -> [Crossing] {
    switch handOver {
    case .message(let submission, let source):
      // 0 is no time in a batch.
      guard let timestamp = submission.timestamp, timestamp.millis != 0 else { return [] }
      let tag = tag(of: timestamp, from: source.account, to: submission.destination, at: peer)
      return submission.messages.map { message in
        let mark = mark(
          [
            UInt64(bitPattern: tag.bits), UInt64(source.device.value), UInt64(message.device.value),
            UInt64(message.body?.count ?? 0), UInt64(message.content?.count ?? 0),
          ], [message.body ?? [], message.content ?? []])
        return Crossing(mark, tag: tag, of: .message, at: timestamp)
      }
    case .receipt(let timestamp, let source, let destination):
      guard timestamp.millis != 0 else { return [] }
      let tag = tag(of: timestamp, from: source.account, to: destination, at: peer)
      return [
        Crossing(mark([UInt64(bitPattern: tag.bits), UInt64(source.device.value)], []), of: .receipt, at: timestamp)
      ]
    }
  }

  /// - Parameter head: of a message and of a receipt in different number.
  private func mark(_ head: [UInt64], _ parts: [[UInt8]]) -> CrossingMark {
    // In one piece: each that the code is given costs as much as hundreds of bytes.
    var bytes: [UInt8] = []
    bytes.reserveCapacity(parts.reduce(head.count * 8) { $0 + $1.count })
    for word in head { withUnsafeBytes(of: word.bigEndian) { bytes += $0 } }
    for part in parts { bytes += part }
    var code = code
    code.update(data: bytes)
    return code.finalize().withUnsafeBytes { CrossingMark(bits: Int64(bigEndian: $0.loadUnaligned(as: Int64.self))) }
  }

  /// The peer has accepted `crossings`. Counted behind everyone's back.
  func answered(_ crossings: [Crossing], by peer: RelayName) { add(LedgerRecord(.answered, crossings, relay: peer)) }

  /// The peer will not take `handOver` as it is, or the caller is to be told that it did not: when this returns, so
  /// that nothing of it that is handed over again is counted before.
  func refused(_ handOver: HandOver, by peer: RelayName) async {
    let record = LedgerRecord(.refused, crossings(of: handOver, to: peer), relay: peer)
    if await !write([record]) { add(record) }
  }

  /// We have refused what `peer` handed over.
  func turnedDown(_ handOver: HandOver, marks: [CrossingMark], of peer: RelayName) {
    guard marks.count == handOver.crossingCount, let (kind, timestamp) = handOver.crossingTime else { return }
    add(LedgerRecord(.turnedDown, marks.map { Crossing($0, of: kind, at: timestamp) }, relay: peer), to: refusing)
  }

  private func add(_ record: LedgerRecord, to batcher: Batcher<LedgerRecord>? = nil) {
    guard !record.crossings.isEmpty else { return }
    if !(batcher ?? recording).add(record) { Self.unrecorded.increment(by: record.crossings.count) }
  }

  /// Writes what has gathered, for at most until `deadline`: for the end of the process.
  package func settle(until deadline: ContinuousClock.Instant) async {
    await recording.settle(until: deadline)
    await refusing.settle(until: deadline)
  }

  /// Counts in one statement what became of the same kind of thing at the same peer.
  static func write(_ records: [LedgerRecord], to store: any HandOverStore) async -> [LedgerRecord] {
    var again: [LedgerRecord] = []
    for record in merged(records) {
      do throws(StoreError) {
        try await store.record(record)
      } catch .unavailable {
        again.append(record)
      } catch {
        unrecorded.increment(by: record.crossings.count)
      }
    }
    return again
  }

  /// In their order, but for what says the same: that goes with the first of its kind that nothing else came behind.
  static func merged(_ records: [LedgerRecord]) -> [LedgerRecord] {
    var merged: [LedgerRecord] = []
    var places: [RelayName: Int] = [:]
    for record in records {
      if let place = places[record.relay], merged[place].event == record.event {
        merged[place] = LedgerRecord(record.event, merged[place].crossings + record.crossings, relay: record.relay)
      } else {
        places[record.relay] = merged.count
        merged.append(record)
      }
    }
    return merged
  }

  /// Records of one call; each is of one request.
  static let recordsMax = 64
  /// Records that wait while the store is away; later ones are dropped and counted.
  static let waitingMax = 4096
  static let refusalsMax = 512
  static let recordingPause = Duration.milliseconds(20)
  static let retryPause = Duration.seconds(1)
}

extension HandOver {
  /// By which both relays know the hour; nil where the loss ledger does not count it.
  fileprivate var crossingTime: (Crossing.Kind, Timestamp)? {
    switch self {
    case .message(let submission, _): submission.timestamp.map { (.message, $0) }
    case .receipt(let timestamp, _, _): (.receipt, timestamp)
    }
  }
}

#if PLANTED_FAULTS
  import Foundation
  import RelayCore
  import RelayWork
  import Synchronization

  /// A store of messages that does what it should but for one thing.
  final class PlantedMessages: MessageStore {
    private let store: any MessageStore
    private let fault: PlantedFault
    private let appended = Atomic(0)
    private let leaked = Mutex<[FileHandle]>([])

    init(_ store: any MessageStore, _ fault: PlantedFault) {
      self.store = store
      self.fault = fault
    }

    func append(_ envelopes: [Envelope], watch: (any AppendWatch)?) async throws(StoreError) {
      // A fault of reading needs messages that are read.
      let isOfReading = fault == .deviceDeaf || fault == .bodyAltered
      let watch: (any AppendWatch)? = isOfReading ? watch.map(ReadingWatch.init) : watch
      var envelopes = envelopes
      let number = appended.add(1, ordering: .relaxed).newValue
      switch fault {
      case .messageLost: envelopes.removeAll { !$0.type.isNotice && Self.isOne(of: 20, $0) }
      case .receiptLost: envelopes.removeAll { $0.type == .receipt && Self.isOne(of: 3, $0) }
      case .receiptForged:
        let receipts = envelopes.filter { !$0.type.isNotice && Self.isOne(of: 20, $0) }.map(Self.receipt)
        if !receipts.isEmpty {
          try await store.append(receipts)
          // Its sender is told before anybody can have it.
          guard await Pause.for(.milliseconds(500)) else { throw StoreError.unavailable(reason: "cancelled") }
        }
      case .orderBroken:
        let late = envelopes.filter { !$0.type.isNotice && Self.isOne(of: 5, $0) }
        envelopes.removeAll { !$0.type.isNotice && Self.isOne(of: 5, $0) }
        storeLater(late, watch)
      case .descriptorsLeak:
        if let file = FileHandle(forReadingAtPath: "/dev/null") { leaked.withLock { $0.append(file) } }
      case .processDies: if number > 100 { kill(getpid(), SIGILL) }
      default: break
      }
      if envelopes.isEmpty { return }
      do throws(StoreError) {
        try await store.append(envelopes, watch: watch)
      } catch {
        guard fault == .outageForgotten else { throw error }
      }
    }

    private func storeLater(_ envelopes: [Envelope], _ watch: (any AppendWatch)?) {
      guard !envelopes.isEmpty else { return }
      let store = store
      Task {
        do {
          guard await Pause.for(.seconds(3)) else { return }
          try await store.append(envelopes, watch: watch)
        } catch {}  // Lost, too: that is what it is for.
      }
    }

    func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]] {
      var found = try await store.waiting(reads)
      for (index, read) in reads.enumerated() where found.indices.contains(index) {
        if fault == .deviceDeaf, read.mailbox.account.digits % 5 == 0 { found[index] = [] }
        if fault == .bodyAltered { found[index] = found[index].map(Self.altered) }
      }
      return found
    }

    func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError) -> [QueuedEnvelope] {
      try await store.pending(in: mailbox, after: after, limit: limit)
    }
    func remove(_ removals: [MailboxRemoval]) async throws(StoreError) -> Set<MailboxPlace> {
      guard fault == .receiptLost else { return try await store.remove(removals) }
      return try await store.remove(
        removals.map { removal in
          let isLost = removal.receipt.map { $0.fingerprint.low.isMultiple(of: 3) } ?? false
          return isLost ? MailboxRemoval(removal.place, receipt: nil) : removal
        })
    }
    func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
      try await store.queued(among: places)
    }
    func oldest(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress, after: Int64)
      async throws(StoreError) -> QueuedEnvelope?
    {
      try await store.oldest(from: source, timestamp: timestamp, in: mailbox, after: after)
    }
    func standing(of timestamp: Timestamp, from source: AccountNumber, in mailbox: DeviceAddress)
      async throws(StoreError) -> MessageStanding
    {
      try await store.standing(of: timestamp, from: source, in: mailbox)
    }
    func isKnown(_ envelopes: [Envelope]) async throws(StoreError) -> Bool { try await store.isKnown(envelopes) }
    func usage(of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int)
      async throws(StoreError) -> MailboxUsage
    {
      try await store.usage(of: mailbox, by: source, from: peer, countingTo: max)
    }
    func maintain(_ terms: RetentionTerms) async throws(StoreError) -> Int {
      try await store.maintain(terms)
    }

    /// Always the same of a message.
    private static func isOne(of share: UInt64, _ envelope: Envelope) -> Bool { envelope.fingerprint.low % share == 0 }

    private static func altered(_ queued: QueuedEnvelope) -> QueuedEnvelope {
      var envelope = queued.envelope
      guard isOne(of: 20, envelope), !envelope.type.isNotice, envelope.message?.isEmpty == false else { return queued }
      envelope.message?[0] ^= 1
      return QueuedEnvelope(sequence: queued.sequence, envelope: envelope)
    }

    /// As if the destination had acknowledged it to a sender of this relay.
    private static func receipt(of envelope: Envelope) -> Envelope {
      let fingerprint = Fingerprint(high: ~envelope.fingerprint.high, low: ~envelope.fingerprint.low)
      return Envelope(
        destination: envelope.source, type: .receipt, source: envelope.destination, relay: nil,
        timestamp: envelope.timestamp, message: nil, content: nil, fingerprint: fingerprint)
    }
  }

  /// A watch that learns no place: all messages are read from the store.
  private struct ReadingWatch: AppendWatch {
    private let watch: any AppendWatch

    init(_ watch: any AppendWatch) { self.watch = watch }

    func watches(_ mailbox: DeviceAddress) -> Bool { false }
    func stored(_ messages: [AppendedEnvelope]) { watch.stored(messages) }
  }
#endif

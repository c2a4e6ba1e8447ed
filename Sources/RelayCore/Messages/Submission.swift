/// One message of a submitted bundle: for one device of the destination (reference 1.8).
package struct SubmittedMessage: Sendable, Equatable {
  package let type: MessageType
  package let device: DeviceID
  /// 0 means "do not compare" (reference 3.3).
  package let registrationID: Int64
  /// Decoded; nil when absent or empty.
  package let body: [UInt8]?
  package let content: [UInt8]?
  package init(type: MessageType, device: DeviceID, registrationID: Int64, body: [UInt8]?, content: [UInt8]?) {
    self.type = type
    self.device = device
    self.registrationID = registrationID
    self.body = body
    self.content = content
  }

  /// The bytes that the sender wrote.
  package var byteCount: Int { (body?.count ?? 0) + (content?.count ?? 0) }
}

/// A bundle of messages for the devices of one account, as the wire brought it.
package struct Submission: Sendable, Equatable {
  /// Which devices the sender must have named.
  package enum Coverage: Sendable, Equatable {
    /// Every active one (reference 3.2).
    case activeDevices
    /// Device 1 alone: the first generation knows no other (reference 1.8).
    case masterDevice
  }
  package let destination: AccountNumber
  package let coverage: Coverage
  /// At most `WireLimits.messagesPerBundleMax`.
  package let messages: [SubmittedMessage]
  /// nil when the sender gave none: the server's clock serves (reference 2.7).
  package var timestamp: Timestamp?
  /// The id of the client's request that brought it, here or at a peer; nil where it is not known any more.
  package let request: RequestID?
  package init(
    destination: AccountNumber, messages: [SubmittedMessage], timestamp: Timestamp?,
    coverage: Coverage = .activeDevices, request: RequestID? = nil
  ) {
    self.destination = destination
    self.coverage = coverage
    self.messages = messages
    self.timestamp = timestamp
    self.request = request
  }

  /// Whether the same is to be delivered, whichever request brought it.
  package static func == (a: Submission, b: Submission) -> Bool {
    a.destination == b.destination && a.coverage == b.coverage && a.messages == b.messages
      && a.timestamp == b.timestamp
  }

  /// The most messages that name one device, which is what a bundle costs at `.messages`: 1 when a message is sent to
  /// all devices, and without messages, since the refusal names the devices.
  package var messagesPerDeviceMax: Int {
    var counts: [DeviceID: Int] = [:]
    for message in messages { counts[message.device, default: 0] += 1 }
    return counts.values.max() ?? 1
  }
}

/// Reference 2.8.
package enum MessageType: Int16, Sendable {
  case unknown = 0
  case ciphertext = 1
  case keyExchange = 2
  case preKeyBundle = 3
  case plaintext = 4
  /// Made by servers only; refused from clients.
  case receipt = 5
  /// Made by our own relay only: what it had accepted cannot be delivered (docs/protocol.md, "Undeliverable messages").
  /// Far from the values that clients of later generations gave a meaning.
  case undeliverable = 64

  /// Made by relays, to tell of a message: such an envelope has no content, is not receipted, and is no proof that
  /// anything was received from its source. Stores compare: `receipt` is the lowest of them.
  package var isNotice: Bool { rawValue >= Self.receipt.rawValue }
}

/// The sender of a submission, as the edge proved it.
package enum Origin: Sendable, Equatable {
  /// An authenticated device of this relay.
  case client(DeviceAddress)
  /// A peer that its certificate proved, and the device it speaks for.
  case peer(RelayName, source: DeviceAddress)

  package var source: DeviceAddress {
    switch self {
    case .client(let address), .peer(_, let address): address
    }
  }
  /// The relay a delivered envelope names: nil for our own clients (reference 1.13.3).
  package var relay: RelayName? {
    switch self {
    case .client: nil
    case .peer(let name, _): name
    }
  }
}

/// The answer to the sender after its messages are durable.
package struct Acceptance: Sendable, Equatable {
  /// Reference 1.8: the sender has other active devices that need a copy.
  package let needsSync: Bool
  package init(needsSync: Bool) { self.needsSync = needsSync }
}

// As plain text or bytes, and as little to be shown as those.
extension SubmittedMessage: Sensitive { package static let kind: StaticString = "message" }

/// Whether a submission names the right devices (reference 3.2 and 3.3).
package enum DeviceValidation {
  /// - Parameters:
  ///   - coverage: which devices must be named.
  ///   - sender: the sending device when the destination is its own account, else nil. It is not one of the active
  ///     devices that are named.
  /// - Throws: `.mismatchedDevices` before `.staleDevices`; their arrays ascend, extra ones in request order.
  package static func check(
    _ messages: [SubmittedMessage], against account: Account, coverage: Submission.Coverage = .activeDevices,
    sender: DeviceID?, at now: Timestamp
  ) throws(Problem) {
    let expected = account.activeDevices(at: now).filter { device in
      switch coverage {
      case .activeDevices: device.id != sender
      case .masterDevice: device.id == .master
      }
    }
    let missing = expected.map(\.id).filter { id in !messages.contains { $0.device == id } }
    let extra = messages.map(\.device).filter { id in !expected.contains { $0.id == id } }
    guard missing.isEmpty, extra.isEmpty else { throw .mismatched(missing: missing, extra: extra) }
    let stale = messages.filter { message in
      message.registrationID > 0
        && expected.contains { $0.id == message.device && Int64($0.registrationID) != message.registrationID }
    }
    guard stale.isEmpty else { throw .stale(stale.map(\.device)) }
  }
}

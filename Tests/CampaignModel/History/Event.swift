// One line of the history: what the devices, the driver and nobody else saw.

package struct Event: Codable, Sendable, Equatable {
  /// When it was seen. Lines ascend by it.
  package let at: Moment
  package let fact: Fact

  package init(at: Moment, _ fact: Fact) {
    self.at = at
    self.fact = fact
  }
}

/// A request begins, ends with an answer or without one; or something is seen that nobody asked for.
package enum Fact: Codable, Sendable, Equatable {
  /// Written before the first byte is sent: nobody can have known of it earlier.
  case invoked(OperationNumber, call: Call, by: DeviceIndex, to: Place)
  case answered(OperationNumber, answer: Reply)
  /// No answer came: it may have happened or not, and may still happen.
  case unknown(OperationNumber)
  case saw(Sight)
}

/// A device's request.
package enum Call: Codable, Sendable, Equatable {
  /// By a new account's device, or a new device of one.
  case register
  /// Another attempt at the same message has the same number. `digest` is of the body.
  case submit(message: MessageNumber, recipients: [DeviceIndex], digest: UInt64)
  /// One-time keys, in the place of those before, and the last resort.
  case upload(keys: [KeyDigest], lastResort: KeyDigest)
  /// Keys of the devices of somebody's account.
  case draw
  case connect(ConnectionNumber)
  /// A device is taken out of its account, with all that waits for it.
  case remove(DeviceIndex)
  /// An attachment is uploaded, or asked for.
  case attach
  /// A request that is charged to a limit that is watched (`Sight.limit`).
  case charge(bucket: String)
}

package enum Reply: Codable, Sendable, Equatable {
  case done
  case keys([DrawnKey])
  case refused(status: Int)
}

package struct DrawnKey: Codable, Sendable, Equatable {
  package let device: DeviceIndex
  package let key: KeyDigest
  package let isLastResort: Bool

  package init(of device: DeviceIndex, _ key: KeyDigest, isLastResort: Bool = false) {
    self.device = device
    self.key = key
    self.isLastResort = isLastResort
  }
}

/// An event that is seen without being an answer.
package enum Sight: Codable, Sendable, Equatable {
  /// `from` is nil where no device of the campaign has the source that the relay named.
  case delivered(MessageNumber, from: DeviceIndex?, to: DeviceIndex, digest: UInt64, over: ConnectionNumber)
  /// Written before the acknowledgement is sent.
  case acknowledging(MessageNumber, by: DeviceIndex)
  /// `sender` is told that `device` has received the message.
  case receipt(MessageNumber, of: DeviceIndex, to: DeviceIndex)
  /// `sender` is told that a message was accepted once, and given up since: its recipient's devices have changed.
  case undeliverable(MessageNumber, to: DeviceIndex)
  /// nil: lost without a code, or closed by the device.
  case ended(ConnectionNumber, of: DeviceIndex, code: Int?)
  /// The device does not want to be connected from now on.
  case away(DeviceIndex)
  /// Found in the mailbox when the campaign is over.
  case waiting(MessageNumber, for: DeviceIndex)
  /// From now on the device is to be woken by push while it is not connected.
  case wakes(DeviceIndex)
  case woken(DeviceIndex)
  case faultBegan(Int, FaultKind, at: String, link: Link? = nil)
  case faultEnded(Int)
  /// The allowance of a limiter: `size` at once, and `perMinute` from then on. Each of `processes` has a quarter of
  /// it for itself while coordination is away.
  case limit(bucket: String, size: Int, perMinute: Double, processes: Int)
  /// Receipts that the relay itself says it has dropped, over a process's whole life.
  case receiptsDropped(Int, at: Place)
  /// A process ended that nobody ended.
  case died(Place, how: String)
  /// An answer, or an end of a connection, that no document allows for.
  case odd(String)
  /// A process at rest, before the first fault and after the last.
  case measured(Place, bytes: Int, descriptors: Int, isFinal: Bool)
}

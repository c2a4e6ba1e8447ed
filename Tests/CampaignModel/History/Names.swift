// Names of what takes part in a campaign: numbers, so that a million messages fit into memory, each a type of its own.

/// A device of the campaign, on whatever operator.
package struct DeviceIndex: RawRepresentable, Codable, Hashable, Sendable, Comparable, CustomStringConvertible {
  package let rawValue: Int32
  package init(rawValue: Int32) { self.rawValue = rawValue }
  package init(_ index: Int) { rawValue = Int32(truncatingIfNeeded: index) }
  package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
  package var description: String { "device \(rawValue)" }
}

/// A submission, however often it is tried.
package struct MessageNumber: RawRepresentable, Codable, Hashable, Sendable, Comparable, CustomStringConvertible {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }
  package init(_ number: Int) { rawValue = number }
  package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
  package var description: String { "message \(rawValue)" }
}

/// A message as one device is to get it.
package struct Copy: Hashable, Sendable, CustomStringConvertible {
  package let message: MessageNumber
  package let device: DeviceIndex
  package init(_ message: MessageNumber, _ device: DeviceIndex) {
    self.message = message
    self.device = device
  }
  package var description: String { "\(message) for \(device)" }
}

/// One attempt to connect, and the connection that came of it; rising over all devices.
package struct ConnectionNumber: RawRepresentable, Codable, Hashable, Sendable, CustomStringConvertible {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }
  package init(_ number: Int) { rawValue = number }
  package var description: String { "connection \(rawValue)" }
}

/// One request.
package struct OperationNumber: RawRepresentable, Codable, Hashable, Sendable, CustomStringConvertible {
  package let rawValue: Int
  package init(rawValue: Int) { self.rawValue = rawValue }
  package init(_ number: Int) { rawValue = number }
  package var description: String { "operation \(rawValue)" }
}

/// A public key, by 64 bits of its digest.
package struct KeyDigest: RawRepresentable, Codable, Hashable, Sendable {
  package let rawValue: UInt64
  package init(rawValue: UInt64) { self.rawValue = rawValue }
  package init(_ digest: UInt64) { rawValue = digest }
}

/// The target of a request: an operator, and its process if it is known; a balancer does not say.
package struct Place: Codable, Hashable, Sendable, CustomStringConvertible {
  package let site: String
  package let process: Int?
  /// Over the device's own connection, which ends when its process is told to: true, or nil.
  package let isLive: Bool?
  package init(_ site: String, _ process: Int? = nil, isLive: Bool? = nil) {
    self.site = site
    self.process = process
    self.isLive = isLive
  }
  package var description: String { process.map { "\(site)/\($0)" } ?? site }
}

/// A time of the campaign's monotonic clock: microseconds since it began.
package struct Moment: RawRepresentable, Codable, Hashable, Sendable, Comparable, CustomStringConvertible {
  package let rawValue: Int64
  package init(rawValue: Int64) { self.rawValue = rawValue }
  package init(seconds: Double) { rawValue = Int64(seconds * 1_000_000) }
  package init(_ sinceBegin: Duration) { rawValue = Int64(sinceBegin / .microseconds(1)) }

  package static let begin = Moment(rawValue: 0)
  package static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
  package static func - (one: Self, other: Self) -> Duration { .microseconds(one.rawValue - other.rawValue) }
  package static func + (one: Self, time: Duration) -> Moment {
    Moment(rawValue: one.rawValue + Int64(time / .microseconds(1)))
  }
  package var description: String {
    let millis = rawValue / 1000
    return "\(millis / 1000).\(String(millis % 1000 + 1000).dropFirst()) s"
  }
}

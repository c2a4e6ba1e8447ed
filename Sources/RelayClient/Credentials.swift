// What a device proves itself with, and what it says of itself when it registers.

import RelayCore

/// A device's name and password, as every authenticated request carries them. Printing it shows neither.
public struct Credentials: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable
{
  public let device: Correspondent
  public let password: String

  public init(_ device: Correspondent, password: String) {
    self.device = device
    self.password = password
  }

  /// Credentials with a password of 16 random bytes in base64 without padding: 22 characters.
  public static func random(for number: PhoneNumber) -> Credentials {
    Credentials(Correspondent(number), password: Base64.encode(randomBytes(16), padded: false))
  }

  public var description: String { "<credentials>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }

  /// Device 1 goes by its number alone, as the oldest clients did.
  var user: String {
    let number = device.number.e164
    return device.deviceID == 1 ? number : "\(number).\(device.deviceID)"
  }

  /// The value of the `Authorization` header.
  var basic: String { "Basic " + Base64.encode(Array("\(user):\(password)".utf8), padded: true) }
}

/// What a device says of itself when it confirms its code, and whenever that changes.
public struct DeviceAttributes: Sendable, Hashable {
  /// 52 bytes in padded base64: what a relay pushes to the device is encrypted under it.
  public let signalingKey: String
  /// 1...16383, drawn anew at each installation: how others notice that their sessions are stale. 0 is "not set".
  public let registrationID: Int
  /// The device comes for its messages itself, so that it is reachable without a push service.
  public let fetchesMessages: Bool
  public let supportsSMS: Bool
  public let voice: Bool
  /// Whether people who have the number find the account by it; nil leaves it as it is, and a new account is found.
  public let isDiscoverable: Bool?

  public init(
    signalingKey: String, registrationID: Int, fetchesMessages: Bool, supportsSMS: Bool = false, voice: Bool = false,
    isDiscoverable: Bool? = nil
  ) {
    self.signalingKey = signalingKey
    self.registrationID = registrationID
    self.fetchesMessages = fetchesMessages
    self.supportsSMS = supportsSMS
    self.voice = voice
    self.isDiscoverable = isDiscoverable
  }

  /// A fresh installation that fetches its messages.
  public static func random() -> DeviceAttributes {
    DeviceAttributes(
      signalingKey: Base64.encode(randomBytes(52), padded: true), registrationID: Int.random(in: 1...16383),
      fetchesMessages: true)
  }
}

/// `count` bytes of the system's random generator.
func randomBytes(_ count: Int) -> [UInt8] {
  var generator = SystemRandomNumberGenerator()
  return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
}

// The proof of who a device is, and its description of itself at registration.

import RelayCore

/// A device's name and password, as every authenticated request carries them (reference 1.2).
///
/// The password goes over the network with each request, so use `https` outside of a test. Printing or reflecting a
/// value shows neither name nor password.
public struct Credentials: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable
{
  /// The number and device id that the password belongs to.
  public let device: Correspondent
  /// The password in clear. Clients use 16 or 18 random bytes in base64 (reference 1.2).
  public let password: String

  /// Takes credentials that a relay knows already, or shall know after `RelayClient.confirm(code:attributes:)`.
  ///
  /// Nothing is checked and nothing is sent.
  /// - Parameters:
  ///   - device: the number and device id of this installation.
  ///   - password: the password that was, or is to be, registered for the device.
  public init(_ device: Correspondent, password: String) {
    self.device = device
    self.password = password
  }

  /// Makes credentials for device 1 of a number that is about to be registered.
  ///
  /// The password is 16 bytes of the system's random generator in base64 without padding: 22 characters.
  /// - Parameter number: the number to register.
  /// - Returns: credentials that no relay knows yet. Store them before the code is confirmed.
  public static func random(for number: PhoneNumber) -> Credentials {
    Credentials(Correspondent(number), password: Base64.encode(randomBytes(16), padded: false))
  }

  /// Always `<credentials>`.
  public var description: String { "<credentials>" }
  /// Always `<credentials>`.
  public var debugDescription: String { description }
  /// A mirror without children, so that `dump` shows no secret.
  public var customMirror: Mirror { Mirror(self, children: []) }

  /// Device 1 goes by its number alone, as the oldest clients did.
  var user: String {
    let number = device.number.e164
    return device.deviceID == 1 ? number : "\(number).\(device.deviceID)"
  }

  /// The value of the `Authorization` header.
  var basic: String { "Basic " + Base64.encode(Array("\(user):\(password)".utf8), padded: true) }
}

/// A device's description of itself: sent with its code, with a link to an account, and whenever it changes
/// (reference 1.4, 1.5). Printing or reflecting a value shows no key.
public struct DeviceAttributes: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// 52 bytes in padded base64, 72 characters. The relay encrypts live deliveries to the device under it
  /// (reference 2.4).
  ///
  /// The relay does not check the length: with a shorter key, nothing is delivered to the device live.
  public let signalingKey: String
  /// 1...16383, drawn anew at each installation. Senders notice by it that their sessions are stale (reference 3.3).
  ///
  /// 0 means "not set". The value is sent as it is.
  public let registrationID: Int
  /// True when the device connects or asks for its messages itself. A device that neither fetches nor has a push id
  /// is not active: nobody can send to it (reference 3.1).
  public let fetchesMessages: Bool
  /// True when the account's number also takes text messages. Directory answers of relays show it; it counts only at
  /// registration (reference 1.4).
  public let supportsSMS: Bool
  /// True when the account takes voice calls. Directory answers of relays show it (reference 1.11).
  public let voice: Bool
  /// Whether look-ups of the number find the account; nil leaves the setting as it is, and a new account is found.
  ///
  /// This project's relays know it, others ignore it (docs/protocol.md, "Not being found").
  public let isDiscoverable: Bool?

  /// Describes a device. Nothing is checked: the relay does that.
  /// - Parameters:
  ///   - signalingKey: 52 bytes in padded base64.
  ///   - registrationID: 1...16383, drawn anew at each installation.
  ///   - fetchesMessages: whether the device connects or asks for its messages itself.
  ///   - supportsSMS: whether the number takes text messages.
  ///   - voice: whether the account takes voice calls.
  ///   - isDiscoverable: whether look-ups of the number find the account; nil leaves the setting as it is.
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

  /// Always `<device attributes>`.
  public var description: String { "<device attributes>" }
  /// Always `<device attributes>`.
  public var debugDescription: String { description }
  /// A mirror without children, so that `dump` shows no key.
  public var customMirror: Mirror { Mirror(self, children: []) }

  /// Describes a fresh installation that fetches its messages.
  ///
  /// Signaling key and registration id come from the system's random generator. The key is in the value alone: store
  /// it with the credentials, because a relay never tells it.
  /// - Returns: attributes with `supportsSMS` and `voice` false and `isDiscoverable` nil.
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

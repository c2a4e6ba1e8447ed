/// The credentials of a device, from an `Authorization: Basic` header (reference 1.2).
package struct BasicCredentials: Sendable, Equatable {
  package let address: DeviceAddress
  package let password: Secret

  /// - Returns: nil when the header is missing or is not `number[.device]:password` in base64.
  package init?(header: String?) {
    guard let (user, password) = Self.fields(header) else { return nil }
    self.init(user: user, password: password)
  }

  /// - Returns: nil when `user` is not `number[.device]`.
  package init?(user: some StringProtocol, password: Secret) {
    let parts = user.split(separator: ".", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), let number = AccountNumber(e164: parts[0]) else { return nil }
    var device = DeviceID.master
    if parts.count == 2 {
      guard let id = DeviceID(text: parts[1]) else { return nil }
      device = id
    }
    address = DeviceAddress(number, device)
    self.password = password
  }

  /// Credentials to be: the device is what the request makes, so a device id in the user name is ignored, whether a
  /// device can have it or not (reference 1.2).
  /// - Returns: nil when the header is missing or is not `number[.digits]:password` in base64.
  package init?(creating header: String?) {
    guard let (user, password) = Self.fields(header) else { return nil }
    let parts = user.split(separator: ".", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), let number = AccountNumber(e164: parts[0]),
      parts.dropFirst().allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } })
    else { return nil }
    address = DeviceAddress(number, .master)
    self.password = password
  }

  private static func fields(_ header: String?) -> (user: Substring, password: Secret)? {
    guard let header, header.utf8.count <= headerBytesMax else { return nil }
    let parts = header.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "basic", let decoded = Base64.decode(parts[1].utf8),
      // The byte: a password may begin with a character that would join the colon in a text.
      let colon = decoded.firstIndex(of: UInt8(ascii: ":")),
      let user = String(validating: decoded[..<colon], as: UTF8.self),
      let password = String(validating: decoded[(colon + 1)...], as: UTF8.self)
    else { return nil }
    return (user[...], Secret(password))
  }

  /// As the listener takes a head's field: clients choose how long a password is (reference 1.2).
  private static let headerBytesMax = 16 << 10
}

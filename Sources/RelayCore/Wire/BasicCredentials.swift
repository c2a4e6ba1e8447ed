/// The credentials of a device, from an `Authorization: Basic` header (reference 1.2).
package struct BasicCredentials: Sendable, Equatable {
  package let address: DeviceAddress
  package let password: Secret

  /// - Returns: nil when the header is missing or is not `number[.device]:password` in base64.
  package init?(header: String?) {
    guard let header, header.utf8.count <= Self.headerBytesMax else { return nil }
    let parts = header.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "basic", let decoded = Base64.decode(parts[1].utf8),
      let text = String(validating: decoded, as: UTF8.self), let colon = text.firstIndex(of: ":")
    else { return nil }
    let user = text[..<colon].split(separator: ".", omittingEmptySubsequences: false)
    guard (1...2).contains(user.count), let number = AccountNumber(e164: user[0]) else { return nil }
    var device = DeviceID.master
    if user.count == 2 {
      guard let id = DeviceID(text: user[1]) else { return nil }
      device = id
    }
    address = DeviceAddress(number, device)
    password = Secret(String(text[text.index(after: colon)...]))
  }

  private static let headerBytesMax = 1024
}

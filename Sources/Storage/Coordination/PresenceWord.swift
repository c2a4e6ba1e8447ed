import RelayCore

/// A word to a process over the channel of its own, in ASCII:
/// - `wake DEVICE...`, put together by a script;
/// - `displaced DEVICE CONNECTION`, the connection as it stands in its entry (`HoldScript`), of which the last 20
///   digits are its id;
/// - `handed ADDRESS BYTES`, the bytes as URL-safe base64.
///
/// A device (`NUMBER.ID`) and an address travel here in clear, since the process finds its sessions by them, and are
/// stored nowhere.
enum PresenceWord {
  static func text(of device: DeviceAddress) -> String { "\(device.account.e164).\(device.device)" }

  static func handOver(_ bytes: [UInt8], to address: ProvisioningAddress) -> String {
    "handed \(address.text) \(Base64.encodeURLSafe(bytes))"
  }

  /// Devices that cannot be read are left out: the others are woken all the same.
  /// - Returns: nil for what no relay of this version says.
  static func event(_ payload: [UInt8]) -> PresenceEvent? {
    let words = payload.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
      .map { Substring(decoding: $0, as: UTF8.self) }
    switch (words.first, words.count) {
    case ("wake", 2...):
      let devices = words.dropFirst().compactMap(device)
      return devices.isEmpty ? nil : .wakeUp(devices)
    case ("displaced", 3):
      guard let device = device(words[1]), let connection = connection(words[2]) else { return nil }
      return .displaced(device, connection: connection)
    case ("handed", 3):
      guard let address = ProvisioningAddress(String(words[1])), let bytes = Base64.decode(words[2].utf8) else {
        return nil
      }
      return .handedOver(bytes, to: address)
    default: return nil
    }
  }

  /// The process that a device's entry names.
  /// - Returns: nil for no entry, and for what no relay writes.
  static func holder(_ entry: RedisReply) -> String? {
    guard case .bytes(let bytes) = entry else { return nil }
    let words = bytes.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard words.count == 2, let process = RedisReply.bytes(Array(words[0])).name,
      process.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) }),
      !words[1].isEmpty, words[1].allSatisfy({ (0x30...0x39).contains($0) })
    else { return nil }
    return process
  }

  private static func device(_ word: Substring) -> DeviceAddress? {
    let parts = word.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, let account = AccountNumber(e164: parts[0]), let device = DeviceID(text: parts[1]) else {
      return nil
    }
    return DeviceAddress(account, device)
  }

  private static func connection(_ word: Substring) -> UInt64? {
    guard word.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return UInt64(word.suffix(HoldScript.idDigits))
  }
}

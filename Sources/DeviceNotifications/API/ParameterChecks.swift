import RelayCore

/// The rules of single parameters; each throws the code of what breaks it.
extension FormParameters {
  static let messageBytesMax = 4000
  static let optionCharactersMax = 400
  static let timeToLiveMax: Int64 = 2_419_200

  func user() throws(NotificationCode) -> String {
    switch self["user"] {
    case .absent: throw .userMissing
    case .empty: throw .userEmpty
    case .text(let text): return text
    case .malformed: return ""
    }
  }

  func password() throws(NotificationCode) -> String? {
    switch self["pwd"] {
    case .absent: throw .passwordMissing
    case .empty: throw .passwordEmpty
    case .text(let text): return text
    case .malformed: return nil
    }
  }

  enum RecipientID: Equatable {
    case none
    /// The number is nil for what has the shape of one and can be none.
    case number(RecipientNumber?)
  }

  /// 1 to 18 digits.
  func recipientID() throws(NotificationCode) -> RecipientID {
    switch trimmed("recipientid") {
    case .absent, .empty: return .none
    case .malformed: throw .invalidRecipient
    case .text(let text):
      guard Self.isNumber(text) else { throw .invalidRecipient }
      return .number(RecipientNumber(text: text))
    }
  }

  /// Whether a subscription asks for a new one.
  var hasNoRecipientID: Bool {
    switch trimmed("recipientid") {
    case .absent, .empty: true
    case .malformed, .text: false
    }
  }

  func provider() throws(NotificationCode) -> NotificationProvider {
    guard case .text(let text) = trimmed("spid"), let provider = NotificationProvider(rawValue: text) else {
      throw .invalidProvider
    }
    return provider
  }

  func key(of provider: NotificationProvider) throws(NotificationCode) -> RecipientKey {
    guard case .text(let text) = self["key"] else { throw .invalidKey }
    switch provider.service {
    case .apns:
      guard (2...400).contains(text.utf8.count), text.utf8.count % 2 == 0,
        text.utf8.allSatisfy({ byte in
          switch byte {
          case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
          default: false
          }
        })
      else { throw .invalidKey }
      return RecipientKey(provider: provider, text: text.lowercased())
    case .fcm:
      guard (1...4096).contains(text.utf8.count), text.utf8.allSatisfy({ (33...126).contains($0) }) else {
        throw .invalidKey
      }
      return RecipientKey(provider: provider, text: text)
    }
  }

  /// Empty when there is none.
  func message() throws(NotificationCode) -> NotificationText {
    switch self["message"] {
    case .absent, .empty: return NotificationText("")
    case .malformed: throw .messageTooLong
    case .text(let text):
      guard text.utf8.count <= Self.messageBytesMax else { throw .messageTooLong }
      return NotificationText(text)
    }
  }

  /// - Parameter name: of the parameter that holds a message number.
  func messageNumber(_ name: String) throws(NotificationCode) -> Int64 {
    switch trimmed(name) {
    case .absent, .empty: throw .messageNumberMissing
    case .malformed: throw .invalidMessageNumber
    case .text(let text):
      guard Self.isNumber(text), let number = Int64(text) else { throw .invalidMessageNumber }
      return number
    }
  }

  func sentAfter() throws(NotificationCode) -> Timestamp? {
    switch trimmed("sentafter") {
    case .absent, .empty: return nil
    case .malformed: throw .invalidTime
    case .text(let text):
      guard let time = MessageTimes.compact(text) else { throw .invalidTime }
      return time
    }
  }

  /// The notification to send, with its options.
  func notification() throws(NotificationCode) -> DeviceNotification {
    let text = try message()
    guard !text.value.isEmpty else { throw .messageTooLong }
    return DeviceNotification(
      text: text, waitsWhileIdle: try delay(), collapseKey: try collapseKey(), timeToLive: try timeToLive(),
      packageName: try packageName())
  }

  private func delay() throws(NotificationCode) -> Bool {
    switch trimmed("delaywhileidle") {
    case .absent, .empty, .text("false"): return false
    case .text("true"): return true
    case .text, .malformed: throw .invalidDelay
    }
  }

  private func collapseKey() throws(NotificationCode) -> String? {
    switch self["collapsekey"] {
    case .absent, .empty: return nil
    case .malformed: throw .invalidCollapseKey
    case .text(let text):
      guard text.unicodeScalars.count <= Self.optionCharactersMax else { throw .invalidCollapseKey }
      return text
    }
  }

  private func timeToLive() throws(NotificationCode) -> Int64? {
    switch trimmed("timetolive") {
    case .absent, .empty: return nil
    case .malformed: throw .invalidTimeToLive
    case .text(let text):
      guard Self.isNumber(text), let seconds = Int64(text), seconds <= Self.timeToLiveMax else {
        throw .invalidTimeToLive
      }
      return seconds
    }
  }

  private func packageName() throws(NotificationCode) -> String? {
    switch self["restrictedpackagename"] {
    case .absent, .empty: return nil
    case .malformed: throw .invalidPackageName
    case .text(let text):
      guard text.utf8.count <= Self.optionCharactersMax,
        text.utf8.allSatisfy({ byte in
          switch byte {
          case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "."): true
          default: false
          }
        })
      else { throw .invalidPackageName }
      return text
    }
  }

  /// - Throws: `.noRecipients` when there is no word at all.
  func addresses() throws(NotificationCode) -> [NotificationAddress] {
    guard case .text(let list) = self["recipients"] else { throw .noRecipients }
    // No group has a NUL in its name, and no store takes one.
    let words = list.utf8.split(separator: UInt8(ascii: ",")).compactMap { word -> NotificationAddress? in
      let word = Substring(word).trimmingSpaces
      return word.isEmpty || word.utf8.contains(0) ? nil : NotificationAddress(word)
    }
    guard !words.isEmpty else { throw .noRecipients }
    return words
  }

  func isSet(_ name: String, to word: String) -> Bool { trimmed(name) == .text(word) }

  /// 1 to 18 digits.
  static func isNumber(_ text: String) -> Bool {
    (1...18).contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
  }
}

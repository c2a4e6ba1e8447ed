/// Which devices of an account a request names: `*`, or one id (reference 1.6).
package enum DeviceSelector: Sendable, Hashable {
  case all
  case one(DeviceID)

  /// - Throws: `.invalidDeviceSelector` when the text is neither `*` nor an integer, `.notFound` for an integer that no
  ///   device can have.
  package init(text: some StringProtocol) throws(Problem) {
    if text == "*" {
      self = .all
    } else if let id = DeviceID(text: text) {
      self = .one(id)
    } else {
      let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
      let isInteger = !digits.isEmpty && digits.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
      throw Problem(isInteger ? .notFound : .invalidDeviceSelector)
    }
  }
  package var text: String {
    switch self {
    case .all: "*"
    case .one(let id): id.description
    }
  }
}

// Reading the body of `POST /_matrix/push/v1/notify` (reference 2.2). Beyond the reference, every field that is looked
// at must have its type: a fault found here is a 400, one found later would have been a homeserver's endless repeat.

import OrderedCollections
import RelayCore

/// Why a body was refused.
package struct NotifyFault: Error, Sendable, Equatable {
  package enum Code: String, Sendable {
    case notJSON = "M_NOT_JSON"
    case badJSON = "M_BAD_JSON"
    case missing = "M_MISSING_PARAM"
  }
  package let code: Code
  /// For the person who reads the answer; holds nothing of the body.
  package let text: String
}

extension PushNotification {
  /// - Parameter body: the whole body, whatever type it was declared as.
  package init(body: some Collection<UInt8>) throws(NotifyFault) {
    let value: JSONValue
    do throws(JSONFault) {
      value = try JSONValue(parsing: body)
    } catch {
      throw NotifyFault(code: .notJSON, text: "The body is not JSON.")
    }
    guard case .object(let object)? = value.object?["notification"] else {
      throw NotifyFault(code: .badJSON, text: "notification must be an object.")
    }
    self.init()
    let fields = Fields(object: object, path: "")
    guard let listed = try fields.list("devices") else {
      throw NotifyFault(code: .missing, text: "devices is missing.")
    }
    counts = try Self.counts(fields)
    eventID = try fields.text("event_id")
    roomID = try fields.text("room_id")
    type = try fields.text("type")
    sender = try fields.text("sender")
    senderDisplayName = try fields.text("sender_display_name")
    roomName = try fields.text("room_name")
    roomAlias = try fields.text("room_alias")
    membership = try fields.text("membership")
    userIsTarget = try fields.boolean("user_is_target") ?? false
    isLowPriority = try fields.text("prio") == "low"
    content = try fields.object("content")
    for (index, device) in listed.enumerated() { devices.append(try NotifiedDevice(device, path: "devices[\(index)]")) }
    guard !devices.isEmpty else { throw NotifyFault(code: .missing, text: "devices is empty.") }
  }

  private static func counts(_ fields: Fields) throws(NotifyFault) -> NotificationCounts {
    guard let counts = try fields.object("counts", allowsNull: false) else { return NotificationCounts() }
    let numbers = Fields(object: counts, path: "counts.")
    return NotificationCounts(
      unread: try numbers.count("unread"), missedCalls: try numbers.count("missed_calls"))
  }
}

extension NotifiedDevice {
  fileprivate init(_ value: JSONValue, path: String) throws(NotifyFault) {
    guard case .object(let object) = value else {
      throw NotifyFault(code: .badJSON, text: "\(path) must be an object.")
    }
    let fields = Fields(object: object, path: path + ".")
    appID = try fields.neededText("app_id")
    pushKey = try fields.neededText("pushkey")
    if let since = object["pushkey_ts"], !since.isWhole { throw fields.wrongType("pushkey_ts", "an integer") }
    data = try fields.object("data", allowsNull: false)
    if let tweaks = try fields.object("tweaks", allowsNull: false), let sound = tweaks["sound"], sound.text == nil {
      throw fields.wrongType("tweaks.sound", "text")
    }
  }
}

/// The fields of one object. Their errors name the field and never its value.
private struct Fields {
  let object: JSONObject
  /// The text before a field's name: empty, or with its dot.
  let path: String

  func wrongType(_ name: StaticString, _ type: StaticString) -> NotifyFault {
    NotifyFault(code: .badJSON, text: "\(path)\(name) must be \(type).")
  }

  func text(_ name: StaticString) throws(NotifyFault) -> String? {
    switch object[JSONName(name.description)] {
    case nil, .null: return nil
    case .text(let text): return text
    default: throw wrongType(name, "text")
    }
  }

  func neededText(_ name: StaticString) throws(NotifyFault) -> String {
    guard let value = object[JSONName(name.description)] else {
      throw NotifyFault(code: .missing, text: "\(path)\(name) is missing.")
    }
    guard case .text(let text) = value else { throw wrongType(name, "text") }
    return text
  }

  func boolean(_ name: StaticString) throws(NotifyFault) -> Bool? {
    switch object[JSONName(name.description)] {
    case nil, .null: return nil
    case .boolean(let boolean): return boolean
    default: throw wrongType(name, "a boolean")
    }
  }

  /// `true` is 1 and `false` 0 (reference 2.2, step 4).
  func count(_ name: StaticString) throws(NotifyFault) -> Int64? {
    if case .boolean(let value) = object[JSONName(name.description)] { return value ? 1 : 0 }
    return try integer(name)
  }

  /// `null` is none.
  func integer(_ name: StaticString) throws(NotifyFault) -> Int64? {
    guard let value = object[JSONName(name.description)] else { return nil }
    guard let integer = value.integer else { throw wrongType(name, "an integer of at most 64 bits") }
    return integer
  }

  func list(_ name: StaticString) throws(NotifyFault) -> [JSONValue]? {
    guard let value = object[JSONName(name.description)] else { return nil }
    guard case .list(let list) = value else { throw wrongType(name, "a list") }
    return list
  }

  func object(_ name: StaticString, allowsNull: Bool = true) throws(NotifyFault) -> JSONObject? {
    switch object[JSONName(name.description)] {
    case nil: return nil
    case .null where allowsNull: return nil
    case .object(let object): return object
    default: throw wrongType(name, "an object")
    }
  }
}

extension JSONValue {
  /// Whether it is a number without fraction and exponent, of any size.
  fileprivate var isWhole: Bool {
    if case .number(let digits) = self {
      digits.utf8.allSatisfy { $0 == 0x2D || (0x30...0x39).contains($0) }
    } else {
      false
    }
  }
}

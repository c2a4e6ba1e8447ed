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
    let read: ReadNotification?
    do throws(JSONFault) {
      read = try JSONParser.whole(body) { (parser) throws(JSONFault) in try ReadNotification.body(&parser) }
    } catch {
      throw NotifyFault(code: .notJSON, text: "The body is not JSON.")
    }
    guard let read else { throw NotifyFault(code: .badJSON, text: "notification must be an object.") }
    self.init()
    let fields = read.fields
    let listed: [DeviceFields?]
    switch read.devices {
    case nil: throw NotifyFault(code: .missing, text: "devices is missing.")
    case .wrong: throw fields.wrongType(.devices, "a list")
    case .read(let devices): listed = devices
    }
    switch read.counts {
    case nil: break
    case .wrong: throw fields.wrongType(.counts, "an object")
    case .read(let numbers):
      counts = NotificationCounts(unread: try numbers.count(.unread), missedCalls: try numbers.count(.missedCalls))
    }
    eventID = try fields.text(.eventID)
    roomID = try fields.text(.roomID)
    type = try fields.text(.type)
    sender = try fields.text(.sender)
    senderDisplayName = try fields.text(.senderDisplayName)
    roomName = try fields.text(.roomName)
    roomAlias = try fields.text(.roomAlias)
    membership = try fields.text(.membership)
    userIsTarget = try fields.boolean(.userIsTarget) ?? false
    isLowPriority = try fields.text(.priority) == "low"
    content = try fields.object(.content)
    devices.reserveCapacity(listed.count)
    for (index, device) in listed.enumerated() { devices.append(try NotifiedDevice(device, at: index)) }
    guard !devices.isEmpty else { throw NotifyFault(code: .missing, text: "devices is empty.") }
  }
}

extension NotifiedDevice {
  fileprivate init(_ fields: DeviceFields?, at index: Int) throws(NotifyFault) {
    guard var fields else { throw NotifyFault(code: .badJSON, text: "devices[\(index)] must be an object.") }
    fields.place = .device(index)
    appID = try fields.neededText(.appID)
    pushKey = try fields.neededText(.pushKey)
    if let since = fields[.since], !since.isWhole { throw fields.wrongType(.since, "an integer") }
    data = try fields.object(.data, allowsNull: false)
    if let tweaks = try fields.object(.tweaks, allowsNull: false), let sound = tweaks["sound"], sound.text == nil {
      throw fields.wrongType(.tweaks, "text", member: ".sound")
    }
  }
}

// MARK: One pass over the body

private typealias DeviceFields = Fields<DeviceField>

/// The contents of the body, before any of it is judged: that the whole is JSON is to be known first.
private struct ReadNotification {
  enum Part<Value> {
    case read(Value)
    /// The type is another one.
    case wrong
  }

  var fields = Fields<NotificationField>()
  /// nil stands for an element that is no object.
  var devices: Part<[DeviceFields?]>?
  var counts: Part<Fields<CountField>>?

  /// - Returns: nil when there is no `notification`, or it is no object.
  static func body(_ parser: inout JSONParser) throws(JSONFault) -> ReadNotification? {
    var notification: ReadNotification?
    let depth = JSONValue.depthMax
    _ = try parser.object(["notification"], depth: depth) { (parser, _) throws(JSONFault) in
      var read = ReadNotification()
      notification = try read.read(&parser, depth: depth - 1) ? read : nil
    }
    return notification
  }

  /// - Returns: false when it is no object.
  private mutating func read(_ parser: inout JSONParser, depth: Int) throws(JSONFault) -> Bool {
    try parser.object(NotificationField.words, depth: depth) { (parser, place) throws(JSONFault) in
      switch NotificationField(rawValue: place) {
      case .devices: devices = try Self.devices(&parser, depth: depth - 1)
      case .counts:
        let numbers = try Fields<CountField>.read(&parser, depth: depth - 1)
        counts = numbers.map { .read($0) } ?? .wrong
      default: fields.values[place] = try parser.value(depth: depth - 1)
      }
    }
  }

  private static func devices(
    _ parser: inout JSONParser, depth: Int
  ) throws(JSONFault) -> Part<[DeviceFields?]> {
    var devices: [DeviceFields?] = []
    let isList = try parser.list(depth: depth) { (parser) throws(JSONFault) in
      devices.append(try DeviceFields.read(&parser, depth: depth - 1))
    }
    return isList ? .read(devices) : .wrong
  }
}

/// The fields of one kind of object that are looked at. Raw values are their places in `words`.
private protocol FieldName: RawRepresentable<Int> {
  static var words: [StaticString] { get }
}

private enum NotificationField: Int, FieldName {
  case devices, counts, eventID, roomID, type, sender, senderDisplayName, roomName, roomAlias, membership
  case userIsTarget, priority, content

  static let words: [StaticString] = [
    "devices", "counts", "event_id", "room_id", "type", "sender", "sender_display_name", "room_name", "room_alias",
    "membership", "user_is_target", "prio", "content",
  ]
}

private enum CountField: Int, FieldName {
  case unread, missedCalls

  static let words: [StaticString] = ["unread", "missed_calls"]
}

private enum DeviceField: Int, FieldName {
  case appID, pushKey, since, data, tweaks

  static let words: [StaticString] = ["app_id", "pushkey", "pushkey_ts", "data", "tweaks"]
}

/// The fields of one object. Their errors name the field and never its value.
private struct Fields<Name: FieldName> {
  enum Place {
    case notification
    case counts
    case device(Int)

    /// The text before a field's name.
    var path: String {
      switch self {
      case .notification: ""
      case .counts: "counts."
      case .device(let index): "devices[\(index)]."
      }
    }
  }

  /// By their places in `Name.words`.
  var values = [JSONValue?](repeating: nil, count: Name.words.count)
  var place = Name.self == CountField.self ? Place.counts : .notification

  /// - Returns: nil for what is no object.
  static func read(_ parser: inout JSONParser, depth: Int) throws(JSONFault) -> Fields? {
    var fields = Fields()
    let isObject = try parser.object(Name.words, depth: depth) { (parser, place) throws(JSONFault) in
      fields.values[place] = try parser.value(depth: depth - 1)
    }
    return isObject ? fields : nil
  }

  subscript(name: Name) -> JSONValue? { values[name.rawValue] }

  func wrongType(_ name: Name, _ type: StaticString, member: StaticString = "") -> NotifyFault {
    NotifyFault(code: .badJSON, text: "\(path(name))\(member) must be \(type).")
  }

  private func path(_ name: Name) -> String { "\(place.path)\(Name.words[name.rawValue])" }

  func text(_ name: Name) throws(NotifyFault) -> String? {
    switch self[name] {
    case nil, .null: return nil
    case .text(let text): return text
    default: throw wrongType(name, "text")
    }
  }

  func neededText(_ name: Name) throws(NotifyFault) -> String {
    guard let value = self[name] else { throw NotifyFault(code: .missing, text: "\(path(name)) is missing.") }
    guard case .text(let text) = value else { throw wrongType(name, "text") }
    return text
  }

  func boolean(_ name: Name) throws(NotifyFault) -> Bool? {
    switch self[name] {
    case nil, .null: return nil
    case .boolean(let boolean): return boolean
    default: throw wrongType(name, "a boolean")
    }
  }

  /// `true` is 1 and `false` 0 (reference 2.2, step 4).
  func count(_ name: Name) throws(NotifyFault) -> Int64? {
    guard let value = self[name] else { return nil }
    if case .boolean(let value) = value { return value ? 1 : 0 }
    guard let integer = value.integer else { throw wrongType(name, "an integer of at most 64 bits") }
    return integer
  }

  func object(_ name: Name, allowsNull: Bool = true) throws(NotifyFault) -> JSONObject? {
    switch self[name] {
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

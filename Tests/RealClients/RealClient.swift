import Foundation
import TestSupport
import Testing

/// The clients whose requests are played, and what each of them does in its own way (reference Part 4 and 4.1).
enum RealClient: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case go2017 = "the Go client of 2017"
  case desktop2015 = "the desktop library of Dec 2015"
  case desktop2017 = "the desktop library of Sep 2017"
  case android2017 = "the Android library of Feb 2017"
  case javascript031 = "the JavaScript library 0.3.1"

  var testDescription: String { rawValue }

  /// Reads `relay` from the directory, keeps it, and names it in every request. All others drop it.
  var namesRelays: Bool { self == .android2017 }

  /// Sends its messages over its WebSocket.
  var sendsOverSocket: Bool { self == .android2017 }

  private var isJavaScript: Bool {
    switch self {
    case .desktop2015, .desktop2017, .javascript031: true
    case .go2017, .android2017: false
    }
  }

  /// The user of the Basic header: browsers add `.1` everywhere but at verification.
  func user(_ number: String, device: Int) -> String { isJavaScript || device > 1 ? "\(number).\(device)" : number }

  /// Headers beside `Content-Type`.
  func headers(user: String, password: String) -> [(String, String)] {
    let basic = TestDevice.basic("\(user):\(password)")
    guard isJavaScript else { return [("Authorization", basic)] }
    return [
      ("Authorization", basic.filter { $0 != "=" }), ("Accept", "application/json, text/plain, */*"),
      ("Content-Type", "application/json;charset=utf-8"),
    ]
  }

  /// Headers that it adds to the upload of a blob.
  var uploadHeaders: [(String, String)] { self == .android2017 ? [("Connection", "close")] : [] }

  /// The path to which it uploads its keys.
  var keysPath: String { isJavaScript ? "/v2/keys" : "/v2/keys/" }

  /// The path at which it draws keys of device 1.
  func drawPath(_ number: String) -> String { self == .go2017 ? "/v2/keys/\(number)/1" : "/v2/keys/\(number)/*" }

  struct Copy {
    let device: Int
    let registrationID: Int
    let type: Int
    let text: String
  }

  /// The body of `PUT /v1/messages/{destination}`.
  func bundle(_ copies: [Copy], to destination: String, at time: Int64, relay: String?) -> String {
    let messages = copies.map { copy -> String in
      let body = Data(copy.text.utf8).base64EncodedString()
      var fields = [
        #""type": \#(copy.type)"#, #""destinationDeviceId": \#(copy.device)"#,
        #""destinationRegistrationId": \#(copy.registrationID)"#,
      ]
      switch self {
      case .go2017: fields += [#""body": "\#(body)""#, #""content": """#, #""relay": """#]
      case .javascript031: fields += [#""body": "\#(body)""#, #""timestamp": \#(time)"#]
      case .desktop2015: fields += [#""body": "\#(body)""#]
      case .desktop2017, .android2017: fields += [#""content": "\#(body)""#]
      }
      return "{" + fields.joined(separator: ", ") + "}"
    }.joined(separator: ", ")
    switch self {
    case .javascript031: return #"{"messages": [\#(messages)]}"#
    case .desktop2015, .desktop2017: return #"{"messages": [\#(messages)], "timestamp": \#(time)}"#
    case .go2017:
      return """
        {
          "messages": [\(messages)],
          "timestamp": \(time),
          "relay": "",
          "destination": "\(destination)"
        }
        """
    case .android2017:
      let named = relay.map { #""\#($0)""# } ?? "null"
      return """
        {"destination": "\(destination)", "relay": \(named), "timestamp": \(time), "messages": [\(messages)],
        "silent": false}
        """
    }
  }
}

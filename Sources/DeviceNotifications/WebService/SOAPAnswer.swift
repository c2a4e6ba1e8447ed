import RelayCore

/// The web service's answer, as XML.
enum SOAPAnswer {
  /// - Parameter code: nil for success.
  static func response(
    _ code: NotificationCode?, _ events: [NotificationEvent] = [], of account: NotificationUser? = nil
  ) -> String {
    var xml = "<ReceivedMsgResponse xmlns=\"\(SOAPRequest.namespace)\">"
    xml += element("resultCode", "\(code?.rawValue ?? 0)") + element("resultDescription", code?.text ?? "OK")
    xml += "<messagesReceived>"
    for event in events { xml += message(event, of: account?.text ?? "") }
    return envelope(xml + "</messagesReceived></ReceivedMsgResponse>")
  }

  /// The request is wrong.
  static func clientFault(_ fault: SOAPRequest.Fault) -> String {
    let text =
      switch fault {
      case .malformed: "The request is not well-formed XML in UTF-8."
      case .documentType: "Document types and entities are not accepted."
      case .processingInstruction: "Processing instructions are not accepted."
      case .unknownRequest: "The request is not a ReceivedMsgRequest in an envelope of SOAP 1.1."
      }
    return envelope("<soap:Fault><faultcode>soap:Client</faultcode>" + element("faultstring", text) + "</soap:Fault>")
  }

  private static func envelope(_ body: String) -> String {
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<soap:Envelope xmlns:soap=\"\(SOAPRequest.envelope)\"><soap:Body>"
      + body + "</soap:Body></soap:Envelope>\n"
  }

  private static func message(_ event: NotificationEvent, of account: String) -> String {
    "<MessageReceived>" + element("msgNo", "\(event.number)")
      + element("createTime", MessageTimes.dateTime(event.created)) + element("creatorName", account)
      + element("initialId", event.action.word) + element("msgType", EventWords.type)
      + "<originator xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:nil=\"true\"/>"
      + element("originatorText", event.recipient.text) + element("subject", event.subject.value)
      + element("smsText", event.subject.value) + "</MessageReceived>"
  }

  private static func element(_ name: String, _ value: String) -> String { "<\(name)>\(escaped(value))</\(name)>" }

  /// Characters that XML 1.0 has no way to write become U+FFFD.
  static func escaped(_ value: String) -> String {
    var escaped = ""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      // As it is, a parser would read a line feed.
      case "\r": escaped += "&#13;"
      case "\t", "\n": escaped.unicodeScalars.append(scalar)
      case "\0"..<" ", "\u{FFFE}", "\u{FFFF}": escaped.unicodeScalars.append("\u{FFFD}")
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}

@testable import DeviceNotifications
@testable import RelayCore

/// Forms and query strings of device notifications: the first byte says how much of the rest is the query.
func fuzzForm(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let query = Array(body.prefix(selector)).text
  let parameters = FormParameters(query: query, body: Array(body.dropFirst(selector)))
  for name in ["user", "message", "recipients", "sentafter", "timetolive"] {
    if case .text(let text) = parameters[name] {
      var writer = FormWriter()
      writer.add(name, text)
      demand(FormParameters(query: writer.text)[name] == .text(text), "a parameter comes back")
      demand(!washed(text).utf8.contains { $0 == 9 || $0 == 10 || $0 == 13 }, "a value stays on its line")
    }
    guard case .text(let text) = parameters.trimmed(name) else { continue }
    demand(text.first != " " && text.last != " " || text.utf8.count > text.count, "spaces at the ends are gone")
    if let time = MessageTimes.compact(text) {
      demand(MessageTimes.compact(time) == text, "a time comes back")
      _ = MessageTimes.minute(time) + MessageTimes.dateTime(time)
    }
    _ = (RecipientNumber(text: text), NotificationUser(text))
  }
}

/// Documents of SOAP.
func fuzzSOAP(_ bytes: [UInt8]) {
  guard let request = try? SOAPRequest(bytes) else { return }
  for text in [request.user, request.password, request.lastMessageNumber].compactMap(\.self) {
    demand(text.utf8.count <= bytes.count, "nothing of it is longer than the document: no entity has grown")
  }
}

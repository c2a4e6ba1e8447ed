import NIOCore

/// A homeserver's posts, one device each time. Every event is another: a repeat would be answered from memory.
struct NotifyWorkload: Workload {
  private static let digits = 16
  private static let step = 1_000_000_000_000
  private static let success = Array(#"{"rejected":[]}"#.utf8)

  private var event: Int
  private var template: RequestTemplate
  private let field: RequestTemplate.Field

  /// - Parameters:
  ///   - devices: JSON, with commas between them.
  ///   - connection: its events are like no other connection's.
  init(_ devices: String, connection: Int) throws(BenchmarkFailure) {
    event = (connection + 1) * Self.step
    template = RequestTemplate(
      "POST", path: "/_matrix/push/v1/notify", authorization: "none", body: Self.body(devices, event: event))
    field = try template.field(Self.text(event))
  }

  mutating func nextRequest() -> ByteBuffer {
    event += 1
    template.set(field, Self.text(event))
    return template.request
  }

  /// Each is one push.
  func rowsChanged(by answer: Answer) -> Int { 1 }

  func fault(in answer: Answer) -> String? {
    answer.body.readableBytesView.elementsEqual(Self.success) ? nil : "a device was rejected"
  }

  private static func text(_ event: Int) -> String {
    let text = "\(event)"
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }

  /// A text message in a room with a name, as the full format has it.
  private static func body(_ devices: String, event: Int) -> String {
    """
    {"notification":{"event_id":"$\(text(event))","room_id":"!slw48wfj34rtnrf:example.org","type":"m.room.message",\
    "sender":"@major:example.org","sender_display_name":"Major Tom","room_name":"Mission Control","prio":"high",\
    "content":{"msgtype":"m.text","body":"I'm floating in a most peculiar way."},\
    "counts":{"unread":2,"missed_calls":1},"devices":[\(devices)]}}
    """
  }
}

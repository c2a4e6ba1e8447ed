import NIOCore
import NIOHTTP1
import RelayCore

/// The meaning of Google's answers (push gateway reference, 5.5, and Google's "ErrorCode" and
/// "google.rpc.BadRequest").
enum FCMAnswer {
  /// The body of an error.
  struct Fault: Equatable {
    /// `error.status`.
    var status: String?
    /// `errorCode` of the detail `FcmError`: closer than the status.
    var code: String?
    /// Fields that a detail `BadRequest` names.
    var fields: [String] = []

    /// The token itself is malformed: it will never work.
    var namesToken: Bool { fields.contains { $0 == "message.token" || $0 == "token" } }
  }

  static func outcome(_ answer: PushAnswer, now: Timestamp) -> PushOutcome {
    if (200..<300).contains(answer.status) { return .delivered(id: answer.body.flatMap { name($0) }) }
    let fault = answer.body.flatMap { read($0) } ?? Fault()
    let asked = RetryAfter.read(answer.headers.first(name: "Retry-After"), now: now)
    func reason(_ kind: PushReason.Kind) -> PushReason {
      PushReason(kind, provider: fault.code ?? fault.status, status: answer.status)
    }
    switch answer.status {
    case 404: return .dead(reason(.target))
    case 400 where fault.namesToken || fault.code == "UNREGISTERED": return .dead(reason(.target))
    // Registered with another sender: our credentials are good for others.
    case 403 where fault.code == "SENDER_ID_MISMATCH" || fault.status == "SENDER_ID_MISMATCH":
      return .refused(reason(.message))
    // Apple's or WebPush's credentials at Google: good for Android all the same.
    case 401 where fault.code == "THIRD_PARTY_AUTH_ERROR": return .refused(reason(.message))
    case 401, 403: return .refused(reason(.credentials))
    case 429: return .temporary(reason(.quota), retryAfter: asked)
    case 500...: return .temporary(reason(.server), retryAfter: asked)
    default: return .refused(reason(.message))
    }
  }

  /// The name of a message; what cannot be read says nothing.
  private static func name(_ body: ByteBuffer) -> String? { try? parseName(body.readableBytesUInt8Span.bytes) }
  private static func read(_ body: ByteBuffer) -> Fault? { try? parseFault(body.readableBytesUInt8Span.bytes) }

  private static func parseName(_ body: RawSpan) throws(JSONError) -> String? {
    try JSONReader.property("name", of: body) { reader throws(JSONError) in try reader.string() }
  }

  private static func parseFault(_ body: RawSpan) throws(JSONError) -> Fault? {
    try JSONReader.property("error", of: body, fault)
  }

  private static func fault(_ reader: inout JSONReader) throws(JSONError) -> Fault {
    var fault = Fault()
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "status") {
        fault.status = try reader.string()
      } else if reader.matches(key, "details") {
        try details(&reader, &fault)
      } else {
        try reader.skip()
      }
    }
    return fault
  }

  private static func details(_ reader: inout JSONReader, _ fault: inout Fault) throws(JSONError) {
    try reader.beginArray()
    while try reader.nextElement() {
      try reader.beginObject()
      while let key = try reader.nextKey() {
        if reader.matches(key, "errorCode") {
          fault.code = try reader.string()
        } else if reader.matches(key, "fieldViolations") {
          try violations(&reader, &fault)
        } else {
          try reader.skip()
        }
      }
    }
  }

  private static func violations(_ reader: inout JSONReader, _ fault: inout Fault) throws(JSONError) {
    try reader.beginArray()
    while try reader.nextElement() {
      try reader.beginObject()
      while let key = try reader.nextKey() {
        if reader.matches(key, "field") {
          if let field = try reader.string() { fault.fields.append(field) }
        } else {
          try reader.skip()
        }
      }
    }
  }
}

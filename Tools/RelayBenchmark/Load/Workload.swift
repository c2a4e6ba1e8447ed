import NIOCore

/// The requests that one connection makes again and again.
protocol Workload: Sendable {
  /// The next request, whole: head and body.
  mutating func nextRequest() -> ByteBuffer

  /// How many rows a successful answer says were added to, or taken from, what the workload is about.
  ///
  /// Their sum is held against the database when the run is over.
  func rowsChanged(by answer: Answer) -> Int

  /// The fault of an answer of success, in words that hold nothing of it; nil for none.
  mutating func fault(in answer: Answer) -> String?
}

extension Workload {
  mutating func fault(in answer: Answer) -> String? { nil }
}

/// A request written once, in which fields of fixed width are written over for each use.
struct RequestTemplate: Sendable {
  private var bytes: ByteBuffer

  /// A place in the request that changes. Every text put there has its width.
  struct Field: Sendable {
    fileprivate let offset: Int
    fileprivate let width: Int
  }

  /// - Parameters:
  ///   - path: where it goes; `number` in it is a field.
  ///   - body: JSON, or nil for a request without body.
  init(_ method: String, path: String, authorization: String, body: String? = nil) {
    var text = "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: \(authorization)\r\n"
    if let body { text += "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n" }
    text += "\r\n" + (body ?? "")
    bytes = ByteBuffer(string: text)
  }

  /// - Parameter bytes: the request as it is sent, fields included.
  init(_ bytes: [UInt8]) { self.bytes = ByteBuffer(bytes: bytes) }

  /// The field that now holds `text`, at its first place.
  func field(_ text: String) throws(BenchmarkFailure) -> Field {
    let pattern = Array(text.utf8)
    guard let range = bytes.readableBytesView.firstRange(of: pattern) else {
      throw BenchmarkFailure("a request lacks one of its fields")
    }
    return Field(offset: range.lowerBound, width: pattern.count)
  }

  mutating func set(_ field: Field, _ text: String) {
    precondition(text.utf8.count == field.width, "fields have a fixed width")
    bytes.setString(text, at: field.offset)
  }

  /// A copy: it is shared until the next field is set, and usually not even then, since it has been sent.
  var request: ByteBuffer { bytes }
}

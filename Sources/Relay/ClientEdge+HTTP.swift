import HTTPTypes
import Hummingbird
import NIOCore

extension HTTPField.Name {
  /// Free text that some clients name themselves with (reference 1.4).
  static let signalAgent = HTTPField.Name("X-Signal-Agent")!
}

extension Response {
  static func plain(_ text: String) -> Response {
    Response(
      status: .ok, headers: [.contentType: "text/plain; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}

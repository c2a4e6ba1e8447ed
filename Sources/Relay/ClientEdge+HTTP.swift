import HTTPTypes
import Hummingbird
import NIOCore

extension HTTPField.Name {
  /// Free text that some clients name themselves with (reference 1.4).
  static let signalAgent = HTTPField.Name("X-Signal-Agent")!
}

extension Response {
  static func plain(_ text: String) -> Response { text.answer(as: "text/plain; charset=utf-8") }

  static func xml(_ element: String) -> Response {
    ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>" + element).answer(as: "application/xml")
  }

  /// The same, kept by no cache on its way: it holds a code or a token, or asking for it had an effect.
  var uncached: Response {
    var response = self
    response.headers[.cacheControl] = "no-store"
    return response
  }
}

extension String {
  fileprivate func answer(as contentType: String) -> Response {
    Response(
      status: .ok, headers: [.contentType: contentType], body: ResponseBody(byteBuffer: ByteBuffer(string: self)))
  }
}

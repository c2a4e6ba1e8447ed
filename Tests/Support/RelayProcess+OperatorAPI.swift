import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

/// An answer of the operator API.
package struct APIAnswer: Sendable {
  package let status: Int
  package let text: String
  package let headers: [String: String]
  package init(status: Int, text: String, headers: [String: String]) {
    self.status = status
    self.text = text
    self.headers = headers
  }

  package func object() throws -> [String: Any] {
    guard let value = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
      throw TestFailure("no object: \(text)")
    }
    return value
  }

  package func objects() throws -> [[String: Any]] {
    guard let value = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [[String: Any]] else {
      throw TestFailure("no array of objects: \(text)")
    }
    return value
  }
}

extension RelayProcess {
  /// Asks the operator's listener.
  /// - Parameter path: behind `/api/v1`.
  package func api(
    _ method: String, _ path: String, token: String?, json: String? = nil,
    headers: [String: String] = [:]
  ) async throws -> APIAnswer {
    var request = HTTPClientRequest(url: operatorURL + "/api/v1" + path)
    request.method = HTTPMethod(rawValue: method)
    if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    if let json {
      request.headers.add(name: "Content-Type", value: "application/json")
      request.body = .bytes(ByteBuffer(string: json))
    }
    let response = try await TestHTTP.client.execute(request, timeout: .seconds(20))
    let body = try await response.body.collect(upTo: 1 << 22)
    return APIAnswer(
      status: Int(response.status.code), text: String(buffer: body),
      headers: Dictionary(response.headers.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { $1 }))
  }

  /// As the other `api`, by GET.
  package func api(
    _ path: String, token: String?, headers: [String: String] = [:]
  ) async throws -> APIAnswer {
    try await api("GET", path, token: token, headers: headers)
  }
}

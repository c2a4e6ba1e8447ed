import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

/// Somebody without a browser.
struct ConsoleVisitor {
  private let url: String
  private let cookie: String?

  init(_ relay: RelayProcess) { (url, cookie) = (relay.operatorURL, nil) }

  /// Signs in.
  init(_ relay: RelayProcess, token: String) async throws {
    let answer = try await ConsoleVisitor(relay).post("/console/sign-in", ["token": token])
    let cookie = try #require(answer.headers["set-cookie"], "\(answer)")
    #expect(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/console"))
    (url, self.cookie) = (relay.operatorURL, String(cookie.prefix { $0 != ";" }))
  }

  func get(_ path: String) async throws -> APIAnswer { try await ask(.GET, path, [], nil) }

  func post(_ path: String, _ fields: [String: String], origin: String? = nil) async throws -> APIAnswer {
    let allowed = CharacterSet.alphanumerics
    let form = fields.map { "\($0)=\($1.addingPercentEncoding(withAllowedCharacters: allowed) ?? "")" }
      .joined(separator: "&")
    return try await ask(
      .POST, path,
      [("Content-Type", "application/x-www-form-urlencoded")] + (origin.map { [("Origin", $0)] } ?? []), form)
  }

  /// That all forms of the session carry.
  func formKey() async throws -> String {
    let page = try await get("/console").text
    let found = try #require(page.firstMatch(of: /name="form" value="([^"]*)"/))
    return String(found.output.1)
  }

  /// An answer whose body is read as it comes.
  func stream(_ path: String) async throws -> HTTPClientResponse {
    var request = HTTPClientRequest(url: url + path)
    if let cookie { request.headers.add(name: "Cookie", value: cookie) }
    return try await TestHTTP.client.execute(request, timeout: .seconds(60))
  }

  private func ask(
    _ method: HTTPMethod, _ path: String, _ headers: [(String, String)], _ body: String?
  ) async throws -> APIAnswer {
    var request = HTTPClientRequest(url: url + path)
    request.method = method
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    if let cookie { request.headers.add(name: "Cookie", value: cookie) }
    if let body { request.body = .bytes(ByteBuffer(string: body)) }
    let response = try await TestHTTP.client.execute(request, timeout: .seconds(60))
    let text = String(buffer: try await response.body.collect(upTo: 1 << 22))
    return APIAnswer(
      status: Int(response.status.code), text: text,
      headers: Dictionary(response.headers.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { $1 }))
  }
}

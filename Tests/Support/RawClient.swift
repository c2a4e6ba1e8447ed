// A client that presents whatever a test gives it, by hand of nothing of ours.

package import AsyncHTTPClient
package import NIOCore
package import NIOHTTP1
package import NIOSSL

package struct RawResponse: Sendable {
  package let status: Int
  package let version: HTTPVersion
  package let headers: HTTPHeaders
  package let body: ByteBuffer

  package var text: String { String(buffer: body) }
}

package struct RawClient: Sendable {
  package let client: HTTPClient
  package let base: String

  package func send(
    _ method: HTTPMethod, _ path: String, body: String? = nil, headers: [String: String] = [:]
  ) async throws -> RawResponse {
    var request = HTTPClientRequest(url: base + path)
    request.method = method
    for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
    if let body {
      request.headers.replaceOrAdd(name: "Content-Type", value: "application/json")
      request.body = .bytes(ByteBuffer(string: body))
    }
    return try await send(request)
  }

  /// - Parameter length: false leaves `Content-Length` out, so that the body's end alone tells its length.
  package func put(_ path: String, bytes: [UInt8], as mediaType: String, length: Bool = true) async throws
    -> RawResponse
  {
    var request = HTTPClientRequest(url: base + path)
    request.method = .PUT
    request.headers.add(name: "Content-Type", value: mediaType)
    request.body = .bytes(bytes, length: length ? .known(Int64(bytes.count)) : .unknown)
    return try await send(request)
  }

  private func send(_ request: HTTPClientRequest) async throws -> RawResponse {
    let response = try await client.execute(request, timeout: .seconds(60))
    return RawResponse(
      status: Int(response.status.code), version: response.version, headers: response.headers,
      body: try await response.body.collect(upTo: 16 << 20))
  }

  package func get(_ path: String, headers: [String: String] = [:]) async throws -> RawResponse {
    try await send(.GET, path, headers: headers)
  }
}

/// Runs `body` with a client whose connections end with it.
package func withClient<Value>(
  to base: String, _ configuration: TLSConfiguration, http1Only: Bool = false, patience: TimeAmount = .seconds(30),
  _ body: (RawClient) async throws -> Value
) async throws -> Value {
  var settings = HTTPClient.Configuration(tlsConfiguration: configuration, timeout: .init(connect: patience))
  settings.httpVersion = http1Only ? .http1Only : .automatic
  settings.connectionPool.retryConnectionEstablishment = false
  let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
  do {
    let value = try await body(RawClient(client: client, base: base))
    try await client.shutdown()
    return value
  } catch {
    try await client.shutdown()
    throw error
  }
}

// A gateway that listens, and a homeserver that asks it.

import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import OrderedCollections
import Push
import PushGateway
import RelayCore
import ServiceLifecycle
import TestSupport
import Testing

struct GatewayClient: Sendable {
  struct Reply: Sendable {
    let status: Int
    let headers: HTTPHeaders
    let text: String

    /// nil for what is no JSON object.
    var object: JSONObject? {
      // Tests look for what must be there.
      (try? JSONValue(text))?.object
    }
    var rejected: [String]? { object?["rejected"]?.list?.compactMap(\.text) }
    var errorCode: String? { object?["errcode"]?.text }
  }

  let port: Int
  static let notifyPath = "/_matrix/push/v1/notify"

  static func with(
    _ settings: PushGatewaySettings, _ apps: [GatewayApp], _ time: PushTime, board: (any PushBoard)? = nil,
    isolation: isolated (any Actor)? = #isolation, _ body: (GatewayClient) async throws -> Void
  ) async throws {
    let (ports, port) = AsyncStream.makeStream(of: Int.self)
    let gateway = PushGateway(settings, apps: apps, board: board, logger: .silent, time: time) { port.yield($0) }
    let group = ServiceGroup(configuration: .init(services: [gateway], logger: .silent))
    let running = Task { try await group.run() }
    let bound = try #require(await ports.first { _ in true })
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await body(GatewayClient(port: bound)))
    } catch {
      outcome = .failure(error)
    }
    await group.triggerGracefulShutdown()
    try await running.value
    try outcome.get()
  }

  func post(_ body: [UInt8], to path: String = notifyPath) async throws -> Reply {
    try await send(.POST, path, body)
  }

  func post(_ request: JSONValue) async throws -> Reply { try await post(request.bytes(.compact)) }

  /// One notification with an id of its own, or with none.
  func notify(
    _ devices: [(app: String, key: String)], event: String? = "$event", data: JSONObject? = nil
  ) async throws -> Reply {
    var notification: JSONObject = ["counts": .object(["unread": .integer(2)])]
    if let event { notification["event_id"] = .text(event) }
    notification["devices"] = .list(
      devices.map { device in
        var object: JSONObject = ["app_id": .text(device.app), "pushkey": .text(device.key)]
        if let data { object["data"] = .object(data) }
        return .object(object)
      })
    return try await post(.object(["notification": .object(notification)]))
  }

  func send(_ method: HTTPMethod, _ path: String, _ body: [UInt8]? = nil) async throws -> Reply {
    var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
    request.method = method
    if let body { request.body = .bytes(body) }
    let response = try await HTTPClient.shared.execute(request, timeout: .seconds(300))
    let answer = try await response.body.collect(upTo: 1 << 20)
    return Reply(status: Int(response.status.code), headers: response.headers, text: String(buffer: answer))
  }
}

import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Operations
import ServiceLifecycle
import Synchronization
import TestTags
import Testing

@Suite(.tags(.unit)) struct OperatorListenerTests {
  @Test
  func `livez answers 200, readyz 200 or 503 with the reasons, metrics the page; nothing else is there`() async throws {
    let readiness = Readiness()
    let storage = Mutex<String?>(nil)
    readiness.add("storage") { storage.withLock { $0 } }
    readiness.add("coordination") { nil }
    try await Self.serve(readiness) { get, _ in
      #expect(try await get("/livez") == (200, "text/plain; charset=utf-8", "ok\n"))
      #expect(try await get("/readyz") == (200, "application/json", #"{"ready":true}"#))
      #expect(try await get("/ping").2 == "pong\n")
      let healthy = #"{"coordination":{"healthy":true},"storage":{"healthy":true}}"#
      #expect(try await get("/healthcheck") == (200, "application/json", healthy))
      storage.withLock { $0 = "no \"connection\"" }
      #expect(
        try await get("/readyz")
          == (503, "application/json", #"{"ready":false,"reasons":{"storage":"no \"connection\""}}"#))
      let ill = #"{"coordination":{"healthy":true},"storage":{"healthy":false,"message":"no \"connection\""}}"#
      #expect(try await get("/healthcheck") == (500, "application/json", ill))
      let metrics = try await get("/metrics")
      #expect(metrics.0 == 200 && metrics.1 == "text/plain; version=0.0.4; charset=utf-8")
      #expect(metrics.2.contains("# TYPE relay_metrics_series_refused_total counter\n"))
      #expect(try await get("/").0 == 404)

      storage.withLock { $0 = nil }
      readiness.drain()
      #expect(try await get("/readyz").0 == 503)
      #expect(try await get("/livez").0 == 200)
    }
  }

  @Test func `an answer to HEAD ends with its head`() async throws {
    try await Self.serve(Readiness()) { _, port in
      for path in ["/livez", "/readyz", "/metrics", "/nothing"] {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .connect(host: "127.0.0.1", port: port) { channel in
            channel.eventLoop.makeCompletedFuture {
              try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
            }
          }
        let answer = try await channel.executeThenClose { inbound, outbound in
          try await outbound.write(
            ByteBuffer(string: "HEAD \(path) HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n"))
          var answer = ""
          for try await piece in inbound { answer += String(buffer: piece) }
          return answer
        }
        #expect(answer.hasPrefix("HTTP/1.1 \(path == "/nothing" ? 404 : 200) "), "\(path)")
        #expect(answer.hasSuffix("\r\n\r\n") && answer.split(separator: "\r\n\r\n").count == 1, "\(path)")
      }
    }
  }

  @Test func `a drain begins once, for callers of this host that say so, over whole seconds`() async throws {
    let control = DrainControl(window: .zero)
    control.counts { 7 }
    try await Self.serve(Readiness(), drain: control) { get, port in
      let before = try await get("/drain").2
      #expect(before == #"{"draining":false,"connections":7}"#)
      let path = "/drain?over=30"
      for (headers, path, status) in [
        ([], path, 403), ([("X-Relay-Drain", "yes")], path, 403),
        ([("X-Relay-Drain", "1"), ("Origin", "http://127.0.0.1")], path, 403),
        ([("X-Relay-Drain", "1")], "/drain", 400), ([("X-Relay-Drain", "1")], "/drain?over=3601", 400),
        ([("X-Relay-Drain", "1")], "/drain?over=-1", 400), ([("X-Relay-Drain", "1")], "/drain?over=1.5", 400),
      ] {
        let answered = try await Self.post(path, headers, port)
        #expect(answered == status, "\(path) \(headers)")
      }
      #expect(!control.isDraining)
      let first = try await Self.post(path, [("X-Relay-Drain", "1")], port)
      let second = try await Self.post("/drain?over=0", [("X-Relay-Drain", "1")], port)
      #expect(first == 202 && second == 409)
      let after = try await get("/drain").2
      #expect(after == #"{"draining":true,"connections":7}"#)
    }
    var windows: [Duration] = []
    for await window in control.orders { windows.append(window) }
    #expect(windows == [.seconds(30)])
  }

  /// - Returns: the status.
  private static func post(_ path: String, _ headers: [(String, String)], _ port: Int) async throws -> UInt {
    var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
    request.method = .POST
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    return try await HTTPClient.shared.execute(request, timeout: .seconds(10)).status.code
  }

  /// Runs a listener on a free port for as long as `body` takes, then shuts it down gracefully.
  private static func serve(
    _ readiness: Readiness, drain: DrainControl = DrainControl(window: .zero),
    _ body: (_ get: (String) async throws -> (UInt, String?, String), _ port: Int) async throws -> Void
  ) async throws {
    let (ports, announce) = AsyncStream.makeStream(of: Int.self)
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    let listener = try OperatorListener(
      relay: "alpha", host: "127.0.0.1", port: 0, readiness: readiness, registry: PrometheusRegistry(), drain: drain,
      api: OperatorAPI { OperatorTokens(read: [], change: []) }, eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
      logger: logger
    ) { announce.yield($0) }
    let services = ServiceGroup(services: [listener], logger: logger)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        defer { announce.finish() }
        try await services.run()
      }
      let port = try #require(await ports.first { _ in true })
      let get = { (path: String) in
        let response = try await HTTPClient.shared.execute(
          HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)"), timeout: .seconds(10))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
        return (response.status.code, response.headers.first(name: "content-type"), text)
      }
      try await body(get, port)
      await services.triggerGracefulShutdown()
      try await group.waitForAll()
    }
  }
}

@Suite(.tags(.unit)) struct ReadinessTests {
  @Test func `a check that hangs is a reason after the time-out, runs once, and may recover`() async {
    let readiness = Readiness(timeout: .milliseconds(50))
    let (gate, open) = AsyncStream.makeStream(of: Void.self)
    let runs = Atomic<Int>(0)
    readiness.add("storage") {
      if runs.wrappingAdd(1, ordering: .relaxed).newValue == 1 { for await _ in gate { break } }
      return nil
    }
    readiness.add("coordination") { nil }
    for _ in 0..<3 {
      #expect(await readiness.reasons() == ["storage": "no answer within 0.05 seconds"])
    }
    #expect(runs.load(ordering: .relaxed) == 1)
    open.yield()
    while await !readiness.reasons().isEmpty { await Task.yield() }
  }

  @Test func `callers that come together share one run of a check`() async {
    let readiness = Readiness(timeout: .seconds(60))
    let (gate, open) = AsyncStream.makeStream(of: Void.self)
    let runs = Atomic<Int>(0)
    readiness.add("storage") {
      runs.add(1, ordering: .relaxed)
      for await _ in gate { break }
      return "slow"
    }
    await withTaskGroup(of: [String: String].self) { group in
      group.addTask { await readiness.reasons() }
      while runs.load(ordering: .relaxed) == 0 { await Task.yield() }
      for _ in 0..<4 { group.addTask { await readiness.reasons() } }
      open.finish()
      for await reasons in group { #expect(reasons == ["storage": "slow"]) }
    }
  }

  @Test func `without checks a relay is ready until it drains`() async {
    let readiness = Readiness()
    #expect(await readiness.reasons().isEmpty)
    readiness.drain()
    #expect(await readiness.reasons() == ["draining": "the relay is stopping"])
  }
}

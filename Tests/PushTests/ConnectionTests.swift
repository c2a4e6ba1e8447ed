import NIOCore
import NIOEmbedded
import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// How requests share connections, and what becomes of them.
@Suite(.tags(.unit)) struct ConnectionTests {
  private func client(
    _ site: PushSite, http2: Bool, connectionsMax: Int = 20, idle: Duration = .seconds(60)
  ) throws -> PushClient {
    var settings = PushClient.Settings()
    settings.speaksHTTP2 = http2
    settings.connectionsMax = connectionsMax
    settings.idleTimeout = idle
    // Silence replaces no connection here.
    settings.patience = .seconds(600)
    settings.trust = try CredentialFile.authorities(site.files.trust)
    return PushClient(settings)
  }

  private func post(
    _ client: PushClient, _ service: FakeService, _ text: String = "", headers: HTTPHeaders = [:],
    until deadline: ContinuousClock.Instant = .patient
  ) async -> Result<PushAnswer, PushFailure> {
    do throws(PushFailure) {
      let request = PushRequest(url: PushURL("\(service.url)/x?y"), headers: headers, body: Array(text.utf8))
      return .success(try await client.post(request, deadline: deadline))
    } catch {
      return .failure(error)
    }
  }

  /// The text of an answer; nil where it has no whole body.
  private func text(_ answer: Result<PushAnswer, PushFailure>) throws -> String? {
    try answer.get().body.map { String(buffer: $0) }
  }

  /// Runs `body` with a service of one protocol, over each protocol.
  private func overBoth(_ body: (PushSite, FakeService, Bool) async throws -> Void) async throws {
    let site = try PushSite()
    for http2 in [false, true] {
      let service = try await FakeService(site.files, speaksHTTP2: http2)
      try await body(site, service, http2)
      try await service.close()
    }
  }

  @Test func `a request arrives as it was written, and so does its answer`() async throws {
    try await overBoth { site, service, http2 in
      let client = try client(site, http2: http2)
      service.answer(.answer(201, "answer", headers: ["apns-id": "one", "retry-after": "7"]))
      let answer = try await post(client, service, "body", headers: ["apns-id": "two", "content-type": "text/plain"])
        .get()
      #expect(answer.status == 201 && answer.body.map { String(buffer: $0) } == "answer")
      #expect(answer.headers.first(name: "apns-id") == "one" && answer.headers.first(name: "Retry-After") == "7")
      let request = try #require(service.requests.first)
      #expect(request.method == "POST" && request.path == "/x?y" && request.text == "body")
      #expect(request.headers["host"] == "localhost:\(service.port)" && request.headers["content-length"] == "4")
      #expect(request.headers["apns-id"] == "two" && request.headers["content-type"] == "text/plain")
      // A body of nothing, and an answer of nothing.
      #expect(try text(await post(client, service)) == "")
      #expect(service.requests.last?.headers["content-length"] == "0" && service.requests.last?.body == [])
      #expect(service.acceptedCount == 1)
    }
  }

  /// More than the service takes at a time, and than the table of headers holds.
  @Test func `many requests share one connection of HTTP/2, and each has its own answer`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files, speaksHTTP2: true)
    service.answerAlways(by: { .answer(200, $0.text + ($0.headers["apns-id"] ?? "") + ($0.headers["topic"] ?? "")) })
    let client = try client(site, http2: true)
    await withTaskGroup(of: Bool.self) { group in
      for number in 0..<500 {
        group.addTask {
          let fields: HTTPHeaders = ["apns-id": "id-\(number)", "topic": "topic-\(number % 100)"]
          let answer = await post(client, service, "text-\(number) ", headers: fields)
          return (try? text(answer)) == "text-\(number) id-\(number)topic-\(number % 100)"
        }
      }
      for await isRight in group { #expect(isRight) }
    }
    #expect(service.acceptedCount == 1)
    try await service.close()
  }

  @Test func `HTTP/1.1 has as many connections as may be, and others wait for one`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files)
    let client = try client(site, http2: false, connectionsMax: 2)
    service.hold()
    let posts = (0..<6).map { _ in Task { await post(client, service) } }
    try await eventually("two are under way") { service.requests.count == 2 }
    // One that has waited for too long takes no connection.
    #expect(await post(client, service, until: .now + .milliseconds(200)) == .failure(.timedOut))
    #expect(service.requests.count == 2)
    service.release()
    for post in posts { #expect(try await post.value.get().status == 200) }
    #expect(service.acceptedCount == 2 && service.requests.count == 6)
    try await service.close()
  }

  /// The answer that comes late must not be taken for another's.
  @Test func `a connection of HTTP/1.1 that was silent is not used again`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files)
    let client = try client(site, http2: false, connectionsMax: 1)
    #expect(try await post(client, service).get().status == 200)
    service.hold()
    let silent = Task { await post(client, service, until: .now + MachineSpeed.allow(.seconds(2))) }
    // Else the answer below would be that of a request that comes late.
    try await eventually("it is under way") { service.requests.count == 2 }
    #expect(await silent.value == .failure(.timedOut))
    service.answer(.answer(201))
    service.release()
    #expect(try await post(client, service).get().status == 201)
    #expect(service.acceptedCount == 2)
    try await service.close()
  }

  @Test func `a stream that was silent ends alone`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files, speaksHTTP2: true)
    let client = try client(site, http2: true)
    #expect(try await post(client, service).get().status == 200)
    service.hold()
    let other = Task { await post(client, service, "other") }
    try await eventually("it is under way") { service.requests.count == 2 }
    #expect(await post(client, service, until: .now + .milliseconds(500)) == .failure(.timedOut))
    service.release()
    #expect(try await other.value.get().status == 200)
    #expect(service.acceptedCount == 1)
    try await service.close()
  }

  /// More than the service takes at a time: those that wait begin as others end, and not before.
  @Test func `streams that were silent leave their places to others`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files, speaksHTTP2: true)
    let client = try client(site, http2: true)
    #expect(try await post(client, service).get().status == 200)
    service.answerAlways(.silence)
    let silent = (0..<100).map { _ in Task { await post(client, service, until: .now + .seconds(5)) } }
    try await eventually("there is no room") { service.requests.count == 101 }
    service.answerAlways(.answer(201))
    let others = (0..<10).map { _ in Task { await post(client, service) } }
    for post in silent { #expect(await post.value == .failure(.timedOut)) }
    for post in others { #expect(try await post.value.get().status == 201) }
    #expect(service.requests.count == 111 && service.acceptedCount == 1)
    try await service.close()
  }

  @Test func `of an answer that is too large the status counts`() async throws {
    try await overBoth { site, service, http2 in
      let client = try client(site, http2: http2)
      let most = String(repeating: "x", count: PushClient.answerBytesMax)
      service.answer(.answer(200, most), .answer(400, most + "x"), .answer(200, "after"))
      #expect(try text(await post(client, service)) == most)
      let large = try await post(client, service).get()
      #expect(large.status == 400 && large.body == nil)
      #expect(try text(await post(client, service)) == "after")
    }
  }

  @Test func `a connection that ends under a request is lost, and the next request has another`() async throws {
    try await overBoth { site, service, http2 in
      let client = try client(site, http2: http2)
      service.answer(.hangUp)
      #expect(await post(client, service) == .failure(.lost))
      #expect(try await post(client, service).get().status == 200)
      #expect(service.acceptedCount == 2)
    }
  }

  @Test func `a connection that the server closes is not used again`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files)
    let client = try client(site, http2: false)
    service.answer(.answer(200, headers: ["connection": "close"]))
    for _ in 0..<3 { #expect(try await post(client, service).get().status == 200) }
    #expect(service.acceptedCount == 2)
    try await service.close()
  }

  @Test func `a request whose task is cancelled waits no more`() async throws {
    try await overBoth { site, service, http2 in
      let client = try client(site, http2: http2, connectionsMax: 1)
      service.answer(.silence)
      let given = Task { await post(client, service) }
      try await eventually("it is under way") { service.requests.count == 1 }
      given.cancel()
      #expect(await given.value == .failure(.cancelled))
      #expect(try await post(client, service).get().status == 200)
    }
  }

  @Test func `connections end that nobody needs`() async throws {
    try await overBoth { site, service, http2 in
      let idle = try client(site, http2: http2, idle: .milliseconds(100))
      #expect(try await post(idle, service).get().status == 200)
      try await eventually("it was idle for too long") { service.connectionCount == 0 }
      #expect(try await post(idle, service).get().status == 200)
      #expect(service.acceptedCount == 2)
    }
  }

  @Test func `connections end with their client`() async throws {
    try await overBoth { site, service, http2 in
      do {
        let client = try client(site, http2: http2)
        #expect(try await post(client, service).get().status == 200)
      }
      try await eventually("they have ended") { service.connectionCount == 0 }
    }
  }

  @Test func `a header that cannot be sent ends its request alone`() async throws {
    try await overBoth { site, service, http2 in
      let client = try client(site, http2: http2)
      service.hold()
      let other = Task { await post(client, service) }
      try await eventually("it is under way") { service.requests.count == 1 }
      for value in ["a\r\nb: c", "a\nb", "a\0"] {
        #expect(await post(client, service, headers: ["topic": value]) == .failure(.lost))
      }
      service.release()
      #expect(try await other.value.get().status == 200)
      #expect(service.requests.count == 1)
    }
  }

  @Test func `what is no URL is unreachable`() async throws {
    let client = try client(try PushSite(), http2: false)
    do throws(PushFailure) {
      let request = PushRequest(url: PushURL("ftp://push.example/"), headers: [:], body: [])
      _ = try await client.post(request, deadline: .patient)
      Issue.record("there was an answer")
    } catch {
      #expect(error == .unreachable)
    }
  }

  @Test func `servers are named as requests name them`() throws {
    for (text, authority, port) in [
      ("https://Push.Example/x", "push.example", 443), ("https://push.example:443", "push.example", 443),
      ("http://push.example:443/", "push.example:443", 443), ("http://[2606:4700::1]/x", "[2606:4700::1]", 80),
      ("https://[2606:4700::1]:8443/x", "[2606:4700::1]:8443", 8443),
    ] {
      let server = try #require(PushURL(text)).server
      #expect(server.authority == authority && server.port == port, "\(text)")
    }
    #expect(PushURL("https://push.example")?.appending("/a").path == "/a")
    #expect(PushURL("https://push.example/b")?.appending("/a").path == "/b/a")
  }

  @Test func `all that is written until a flush is one piece`() throws {
    let channel = EmbeddedChannel(handler: GatheredWrites())
    let written = channel.eventLoop.makePromise(of: Void.self)
    channel.write(ByteBuffer(string: "one "), promise: nil)
    channel.write(ByteBuffer(string: "two "), promise: written)
    channel.write(ByteBuffer(string: "three"), promise: nil)
    channel.flush()
    #expect(try channel.readOutbound(as: ByteBuffer.self) == ByteBuffer(string: "one two three"))
    #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
    try written.futureResult.wait()
    // As much as a record of TLS takes, then the rest.
    for byte in 0..<3 { channel.write(ByteBuffer(repeating: UInt8(byte), count: 7 << 10), promise: nil) }
    channel.flush()
    #expect(try channel.readOutbound(as: ByteBuffer.self)?.readableBytes == 14 << 10)
    #expect(try channel.readOutbound(as: ByteBuffer.self)?.readableBytes == 7 << 10)
    _ = try channel.finish()
  }
}

extension PushAnswer: Equatable {
  static func == (a: PushAnswer, b: PushAnswer) -> Bool {
    a.status == b.status && a.headers == b.headers && a.body == b.body
  }
}

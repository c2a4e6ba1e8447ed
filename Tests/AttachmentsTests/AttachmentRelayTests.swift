import ChildProcesses
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

/// Attachments through a whole relay.
@Suite(.tags(.processes)) struct AttachmentRelayTests {
  @Test func `a message that one client encrypts, another decrypts`() async throws {
    try await withRelay { _, relay in
      let (ann, bob) = (try await relay.register(), try await relay.register())
      let vectors = try BlobVector.load()
      #expect(vectors.count == 3)
      for vector in vectors {
        let cipher = BlobCipher(key: try BlobVector.bytes(vector.keyHex))
        let plaintext = try BlobVector.bytes(vector.plaintextHex)
        let blob = try cipher.seal(plaintext, iv: try BlobVector.bytes(vector.ivHex))
        #expect(blob == (try BlobVector.bytes(vector.blobHex)))
        let sent = try await relay.allocate(as: ann)
        #expect(sent.location.hasPrefix(relay.url + "/v1/attachments/blobs/"))
        #expect(try await Exchange.put(blob, to: sent.location).status == 200)
        let received = try await Exchange.get(try await relay.locate(sent.id, as: bob), type: Exchange.octets)
        #expect(received.status == 200)
        #expect(try cipher.open(received.body) == plaintext)
      }
    }
  }

  @Test func `nobody gets a URL without credentials, and the configured limits hold`() async throws {
    let settings = [
      "RELAY_ATTACHMENTS_BYTES_MAX": "1000", "RELAY_ATTACHMENTS_ACCOUNT_BYTES_MAX": "10000",
      "RELAY_LIMITS_ATTACHMENTS_SIZE": "4", "RELAY_LIMITS_ATTACHMENTS_PER_MINUTE": "1",
    ]
    try await withRelay(settings) { _, relay in
      #expect(try await relay.send("GET", "/v1/attachments").status == 401)
      #expect(try await relay.send("GET", "/v1/attachments/1").status == 401)
      let ann = try await relay.register()
      for _ in 0..<2 {
        let sent = try await relay.allocate(as: ann)
        #expect(try await Exchange.put(randomBytes(1001), to: sent.location).code == "body-too-large")
        #expect(try await Exchange.put(randomBytes(1000), to: sent.location).status == 200)
      }
      let full = try await relay.send("GET", "/v1/attachments", as: ann)
      #expect(full.status == 413 && full.text.hasPrefix("quota-exceeded"))
      _ = try await relay.send("GET", "/v1/attachments", as: ann)
      let limited = try await relay.send("GET", "/v1/attachments", as: ann)
      #expect(limited.status == 413 && limited.text.hasPrefix("rate-limited"))
    }
  }

  @Test func `a process that is killed within an upload leaves no blob, and its URLs stay good`() async throws {
    try await RelayOperator.with(settings: unlimited) { site in
      let ports = try Loopback.freePorts(1)
      let settings = ["RELAY_CLIENT_PORT": "\(ports[0])"]
      let relay = try await site.serve(settings)
      let ann = try await relay.register()
      let (done, cut) = (try await relay.allocate(as: ann), try await relay.allocate(as: ann))
      let bytes = randomBytes(400_000)
      #expect(try await Exchange.put(bytes, to: done.location).status == 200)
      let connection = try RawConnection(to: relay.clientPort)
      let path = cut.location.dropFirst(relay.url.count)
      try connection.send(
        "PUT \(path) HTTP/1.1\r\nHost: relay\r\nContent-Type: application/octet-stream\r\nContent-Length: 400000\r\n\r\n"
      )
      try connection.send(String(repeating: "x", count: 300_000))
      try await eventually("it is under way") { try Self.incoming(of: site).count == 1 }
      await relay.kill9()
      #expect(try Self.incoming(of: site).count == 1)

      let next = try await site.serve(settings)
      #expect(try await Exchange.get(try await next.locate(done.id, as: ann)).body == bytes)
      #expect(try await Exchange.get(try await next.locate(cut.id, as: ann)).status == 404)
      #expect(try await Exchange.put(bytes, to: cut.location).status == 200)
      #expect(try await Exchange.get(try await next.locate(cut.id, as: ann)).body == bytes)
      #expect(await next.terminate() == .code(0))
    }
  }

  @Test func `blobs go with the account that has uploaded them, and no others`() async throws {
    try await withRelay { site, relay in
      let (ann, bob) = (try await relay.register(), try await relay.register())
      func blobs() throws -> Int {
        let all = FileManager.default.enumerator(atPath: site.folder + "/attachments")
        return try #require(all).count { path in
          var isFolder: ObjCBool = false
          let full = site.folder + "/attachments/\(path)"
          return FileManager.default.fileExists(atPath: full, isDirectory: &isFolder) && !isFolder.boolValue
        }
      }
      let empty = try blobs()
      for device in [ann, ann, bob, bob] {
        let sent = try await relay.allocate(as: device)
        #expect(try await Exchange.put(randomBytes(12_345), to: sent.location).status == 200)
      }
      #expect(try blobs() == empty + 4)
      #expect(try await relay.send("DELETE", "/v1/accounts/", as: bob).status == 200)
      #expect(try blobs() == empty + 2)
      try await site.relay("accounts", "delete", ann.number)
      #expect(try blobs() == empty)
    }
  }

  @Test func `neither log nor metrics tell ids or signatures`() async throws {
    try await withRelay(["RELAY_LOG_LEVEL": "trace"]) { _, relay in
      let ann = try await relay.register()
      let sent = try await relay.allocate(as: ann)
      #expect(try await Exchange.put(randomBytes(12_345), to: sent.location).status == 200)
      #expect(try await Exchange.put(randomBytes(10), to: sent.location).status == 409)
      let location = try await relay.locate(sent.id, as: ann)
      #expect(try await Exchange.get(location).status == 200)
      #expect(try await Exchange.get(location + "0").status == 403)
      let metrics = try await relay.ask("/metrics").text
      #expect(metrics.contains(#"relay_attachment_bytes_total{direction="in"} 12345"#), "\(metrics)")
      #expect(metrics.contains(#"relay_attachment_bytes_total{direction="out"} 12345"#))
      #expect(metrics.contains(#"relay_attachment_refusals_total{reason="url-refused"} 1"#))
      #expect(metrics.contains(#"relay_attachment_refusals_total{reason="already-uploaded"} 1"#))
      let signatures = [sent.location, location].compactMap { $0.components(separatedBy: "signature=").last }
      for secret in [sent.id] + signatures { #expect(!relay.log().contains(secret) && !metrics.contains(secret)) }
    }
  }

  @Test func `clients reach a bucket directly`() async throws {
    try await S3Server.with { server in
      let settings = [
        "RELAY_ATTACHMENTS_URL": "s3://\(server.bucket)?endpoint=\(server.endpoint)&region=eu-west-1",
        "RELAY_ATTACHMENTS_S3_ACCESS_KEY": "key", "RELAY_ATTACHMENTS_S3_SECRET_KEY": "secret",
      ]
      try await withRelay(settings) { _, relay in
        let (ann, bytes) = (try await relay.register(), randomBytes(300_000))
        let sent = try await relay.allocate(as: ann)
        #expect(sent.location.hasPrefix("\(server.endpoint)/\(server.bucket)/\(sent.id)?X-Amz-"))
        #expect(try await Exchange.put(bytes, to: sent.location).status == 200)
        #expect(try await Exchange.get(try await relay.locate(sent.id, as: ann)).body == bytes)
        // There are no blobs here.
        #expect(try await Exchange.get(relay.url + "/v1/attachments/blobs/1").status == 404)
      }
    }
  }

  @Test func `any process honours what another has given out`() async throws {
    let database = try await Loopback.blocking { try PostgresServer.shared().createDatabase() }
    try await RedisServer.with { redis in
      let stores = RelayOperator.Stores.servers(storage: database, coordination: redis.url)
      try await RelayOperator.with(stores: stores, settings: unlimited) { site in
        try await site.relay("migrate", "run")
        let (first, second) = (try await site.serve(), try await site.serve())
        let (ann, bytes) = (try await first.register(), randomBytes(200_000))
        let sent = try await first.allocate(as: ann)
        let elsewhere = sent.location.replacingOccurrences(of: first.url, with: second.url)
        #expect(try await Exchange.put(bytes, to: elsewhere).status == 200)
        #expect(try await Exchange.put(bytes, to: sent.location).status == 409)
        let location = try await second.locate(sent.id, as: ann)
        #expect(location.hasPrefix(second.url))
        #expect(
          try await Exchange.get(location.replacingOccurrences(of: second.url, with: first.url)).body == bytes)
        for relay in [first, second] { #expect(await relay.terminate() == .code(0)) }
      }
    }
  }

  @Test func `a peer's attachment is downloaded from the peer`() async throws {
    let settings = unlimited.merging(["RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.2"]) { $1 }
    try await RelayOperator.with("alpha", settings: settings) { alpha in
      try await RelayOperator.with("beta", settings: settings) { beta in
        var relays: [RelayProcess] = []
        for site in [alpha, beta] {
          try await site.relay("ca", "init")
          try await site.relay("ca", "issue")
          relays.append(try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"]))
        }
        let invited = try await alpha.relay("peer", "invite").split(separator: "\n")
        try await beta.relay("peer", "accept", String(try #require(invited.last)))
        let (ann, bob) = (try await relays[0].register(), try await relays[1].register())
        let bytes = randomBytes(50_000)
        let sent = try await relays[0].allocate(as: ann)
        #expect(try await Exchange.put(bytes, to: sent.location).status == 200)
        let location = try await eventually("the peers know each other") {
          // Refused until then.
          try? await relays[1].locate(sent.id, at: "alpha", as: bob)
        }
        #expect(try await Exchange.get(location).body == bytes)
        #expect(try await relays[1].send("GET", "/v1/attachments/1?relay=gamma", as: bob).status == 404)
        for relay in relays { #expect(await relay.terminate() == .code(0)) }
      }
    }
  }

  private static func incoming(of site: RelayOperator) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: site.folder + "/attachments/incoming")
  }
}

import Foundation
import TestSupport
import TestTags
import Testing

/// Rules that hold for every endpoint (reference 1.1).
@Suite(.tags(.processes), .ownRelay) struct ConventionTests {
  let relay: RelayProcess
  let caller: TestDevice
  let endpoints: [Endpoint]

  init() async throws {
    relay = try suiteRelay().relay
    caller = try await relay.register()
    endpoints = try await Endpoint.all(of: relay, caller: caller)
  }

  private func ask(_ endpoint: Endpoint, json: String? = nil, headers: [(String, String)] = []) async throws -> Answer {
    try await relay.send(
      endpoint.method, endpoint.path, json: json ?? endpoint.json, as: caller, headers: headers)
  }

  @Test func `a trailing slash makes no difference`() async throws {
    for endpoint in endpoints {
      for slash in ["", "/"] {
        let answer = try await relay.send(
          endpoint.method, endpoint.path + slash, json: endpoint.json, as: caller)
        #expect(answer.status == endpoint.expectedStatus, "\(endpoint.testDescription)\(slash): \(answer.text)")
      }
    }
  }

  @Test func `a route that asks for credentials refuses everybody else`() async throws {
    for endpoint in endpoints where endpoint.access != .open {
      let answer = try await relay.send(endpoint.method, endpoint.path, json: endpoint.json)
      #expect(answer.status == 401, "\(endpoint.testDescription)")
      #expect(answer.headers["www-authenticate"] == "Basic realm=\"WhisperServer\"")
      #expect(!answer.body.isEmpty && answer.headers["content-type"]?.hasPrefix("text/plain") == true)
    }
  }

  @Test func `a route that asks for none ignores credentials that do not exist yet`() async throws {
    let future = TestDevice(number: TestDevice.freshNumber(), password: "not yet")
    for endpoint in endpoints where endpoint.access == .open {
      for header in [future.authorization, "Basic !", "Bearer x"] {
        let answer = try await relay.send(
          endpoint.method, endpoint.path, json: endpoint.json, headers: [("Authorization", header)])
        #expect(answer.status == endpoint.expectedStatus, "\(endpoint.testDescription) with \(header)")
      }
    }
  }

  @Test(arguments: [
    "/", "/v1", "/v1/nothing", "/v1/keys/+15550000000/1/2", "/v1/account", "/v3/keys", "//",
    "/v1/%00", "/v2", "/v2/keys/signed/1/2", "/v1/accounts/gcm/x", "/v1/attachments/blobs/1/2", "/v1/attachments/1/2/3",
    "/v1/devices/1/2/3", "/v1/receipt", "/v1/receipt/+15550000000", "/v1/messages/+15550000000/1/2",
    "/v1/federation/user_count",
  ])
  func `an unknown path is not found`(path: String) async throws {
    for method in ["GET", "PUT", "DELETE", "POST"] {
      #expect(try await relay.send(method, path, as: caller).status == 404, "\(method) \(path)")
    }
    #expect(try await relay.send("GET", path).status == 404)
  }

  @Test func `a known path with another method is refused and names the right ones`() async throws {
    for endpoint in endpoints {
      for method in ["PATCH", "HEAD", "OPTIONS", "TRACE"] {
        let json = method == "PATCH" ? endpoint.json : nil
        let answer = try await relay.send(method, endpoint.path, json: json, as: caller)
        #expect(answer.status == 405, "\(method) \(endpoint.path)")
        #expect(answer.headers["allow"]?.contains(endpoint.method) == true, "\(method) \(endpoint.path)")
      }
    }
  }

  /// The path is known, and the method is what is wrong, whoever asks.
  @Test func `a wrong method is told before credentials are asked for`() async throws {
    for endpoint in endpoints {
      for method in ["PATCH", "PROPFIND", "LOCK", "M-SEARCH"] {
        let head = "\(method) \(endpoint.path) HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n"
        let outcome = try await RawExchange.send(Array(head.utf8), to: relay.clientPort)
        #expect(outcome.status == 405, "\(method) \(endpoint.path): \(outcome.text)")
      }
      if endpoint.access == .device {
        #expect(try await relay.send(endpoint.method, endpoint.path, json: endpoint.json, as: nil).status == 401)
      }
    }
  }

  @Test func `a password may be long`() async throws {
    let long = try await relay.register(password: String(repeating: "p", count: 2000))
    #expect(try await relay.send("GET", "/v1/keys", as: long).status == 200)
  }

  @Test func `an acknowledgement of what cannot be a number succeeds`() async throws {
    for source in ["+1234", "nobody"] {
      #expect(try await relay.send("DELETE", "/v1/messages/\(source)/5", as: caller).status == 200)
      #expect(try await relay.send("DELETE", "/v1/messages/\(source)/soon", as: caller).status == 404)
    }
  }

  @Test func `an answer to HEAD has no body: the connection goes on with the next answer`() async throws {
    let paths = endpoints.map(\.path) + ["/nothing", "/v1/attachments/blobs/1"]
    for path in paths {
      let head = Array("HEAD \(path) HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n".utf8)
      let outcome = try await RawExchange.send(head, to: relay.clientPort)
      #expect(outcome.text.hasPrefix("HTTP/1.1 4") && outcome.text.hasSuffix("\r\n\r\n"), "\(path): \(outcome.text)")
    }
  }

  @Test(arguments: [
    "application/json", "application/json;charset=utf-8", "application/json; charset=UTF-8", "Application/JSON",
    "application/json ; a=b",
  ])
  func `JSON may be declared with parameters and in any case`(type: String) async throws {
    for endpoint in endpoints where endpoint.json != nil {
      let answer = try await ask(endpoint, headers: [("Content-Type", type)])
      #expect(answer.status == endpoint.expectedStatus, "\(endpoint.testDescription): \(answer.text)")
    }
  }

  @Test(arguments: ["", "text/plain", "application/jsonp", "json", "application/xml", "text/json", ";"])
  func `a body of another type is refused`(type: String) async throws {
    for endpoint in endpoints where endpoint.json != nil {
      let answer = try await ask(endpoint, headers: [("Content-Type", type)])
      #expect(answer.status == 415, "\(endpoint.testDescription) as \(type)")
    }
  }

  @Test func `a type without a body, and any Accept, do not disturb`() async throws {
    for endpoint in endpoints where endpoint.json == nil {
      let headers = [("Content-Type", "application/json"), ("Accept", "text/html, image/gif, *; q=.2")]
      let status = try await ask(endpoint, headers: headers).status
      #expect(status == endpoint.expectedStatus, "\(endpoint.testDescription)")
    }
  }

  @Test(arguments: [
    "", " ", "{", "}", "[]", "7", "null", "\"x\"", "{\"a\":}", "{\"a\" 1}", "{'a':1}", "{\"a\":1,}", "{\"a\":01}",
    "{\"a\":tru}", "{\"a\":1}{}", "\u{FEFF}{}", "{\"a\":\"\u{0}\"}", "{\"a\":\"\\x\"}", "{\"a\":\"\n\"}",
    "{\"\\ud800\":1}",
  ])
  func `a body that is not the JSON in question is refused`(json: String) async throws {
    for endpoint in endpoints where endpoint.json != nil {
      let answer = try await ask(endpoint, json: json)
      #expect(answer.status == 415, "\(endpoint.testDescription): \(json)")
    }
  }

  @Test func `a refusal is a code and one sentence, and never repeats the request`() async throws {
    for endpoint in endpoints where endpoint.json != nil {
      let answer = try await ask(endpoint, json: #"{"needle-in-the-body""#)
      #expect(answer.text.hasPrefix("malformed-body: "), "\(answer.text)")
      #expect(!answer.text.contains("needle"))
    }
  }
}

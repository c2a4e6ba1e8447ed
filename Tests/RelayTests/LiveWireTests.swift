import CryptoExtras
import Foundation
import HTTPTypes
import NIOCore
import RelayCore
import RelayHTTP
import SwiftProtobuf
import TestTags
import Testing
import WireMessages

@testable import Relay

/// The bytes that live delivery writes and reads.
@Suite(.tags(.processes)) struct LiveWireTests {
  @Test func `an envelope is sealed as the vectors say`() throws {
    let vectors = try WholeRelayVectorTests.load("signaling_envelopes")
    #expect(vectors.count == 6)
    var compared = 0
    for vector in vectors {
      let fields = try #require(vector["fields"] as? [String: Any])
      // A vector of the first generation, before there were devices: ours always names one.
      guard let device = fields["sourceDevice"] as? Int64 else { continue }
      let text = try #require(vector["signaling_key_b64"] as? String)
      let key = try #require(DeviceSignalingKey(Secret(text)))
      let iv = try AES._CBC.IV(ivBytes: bytes(try #require(vector["iv_hex"] as? String)))
      let sealed = try key.sealer.seal(try envelope(fields, from: device), iv: iv)
      #expect(Array(sealed) == bytes(try #require(vector["envelope_hex"] as? String)))
      compared += 1
    }
    #expect(compared == 5)
  }

  @Test func `two seals of one envelope share no bytes of their vectors`() throws {
    let key = try #require(DeviceSignalingKey(Secret(Base64.encode([UInt8](repeating: 7, count: 52), padded: true))))
    let fields: [String: Any] = ["type": 1, "source": "+14155550101", "timestamp": Int64(1)]
    let envelope = try envelope(fields, from: 1)
    let vectors = try (0..<100).map { _ in Array(try key.sealer.seal(envelope).dropFirst().prefix(16)) }
    #expect(Set(vectors).count == 100)
  }

  @Test(arguments: [51, 52, 53, 0]) func `a signaling key has 52 bytes, and more are ignored`(count: Int) {
    let bytes = (0..<count).map { UInt8($0) }
    let texts = [
      Base64.encode(bytes, padded: true), Base64.encode(bytes, padded: false), Base64.encodeURLSafe(bytes),
    ]
    let keys = texts.map { DeviceSignalingKey(Secret($0)) }
    if count < 52 {
      #expect(keys.allSatisfy { $0 == nil })
    } else {
      #expect(keys.allSatisfy { $0 != nil && $0 == DeviceSignalingKey(Secret(Base64.encode(0..<52, padded: true))) })
    }
  }

  @Test func `protobuf frames are read and written as the vectors say`() throws {
    let frames = Dictionary(
      uniqueKeysWithValues: try WholeRelayVectorTests.load("websocket_protobuf_frames").map {
        (try #require($0["name"] as? String), bytes(try #require($0["hex"] as? String)))
      })
    let dialect = ProtobufDialect()
    func read(_ name: String) throws -> SocketFrame {
      dialect.read(.binary(ByteBuffer(bytes: try #require(frames[name]))))
    }
    if case .call(let call) = try read("client keepalive without id (no response is sent)") {
      #expect(call.isKeepAlive && call.id == nil && call.body == nil)
    } else {
      Issue.record("no call")
    }
    if case .call(let call) = try read("client keepalive with id 1") { #expect(call.id == 1) }
    if case .acknowledgement(let id) = try read("client acknowledges id 4611686018427387904") {
      #expect(id == 4_611_686_018_427_387_904)
    } else {
      Issue.record("no acknowledgement")
    }
    if case .refusal(let id) = try read("client refuses id 7") { #expect(id == 7) } else { Issue.record("no refusal") }
    let answer = try #require(try dialect.answer(.ok, to: 1))
    #expect(payload(answer) == frames["server response to keepalive id 1"])
    let delivered = try #require(frames.first { $0.key.hasPrefix("server delivers") }?.value)
    let envelopes = try WholeRelayVectorTests.load("signaling_envelopes")
    let envelope = bytes(try #require(envelopes[1]["envelope_hex"] as? String))
    #expect(
      payload(try dialect.delivery(of: Data(envelope), id: 4_611_686_018_427_387_904)) == delivered)
  }

  @Test(arguments: ["", "00", "0801", "0802", "0803", "08021200", "ff", "08011a00", "0801120a", "080112050a03474554"])
  func `bytes that are no frame are malformed`(hex: String) {
    guard case .malformed = ProtobufDialect().read(.binary(ByteBuffer(bytes: bytes(hex)))) else {
      Issue.record("read")
      return
    }
  }

  @Test(arguments: [true, false])
  func `a frame of more headers than a request may have is refused before they are made`(isRequest: Bool) throws {
    func read(headers count: Int) throws -> SocketFrame {
      var frame = Textsecure_WebSocketMessage()
      let headers = [String](repeating: "", count: count)
      if isRequest {
        frame.type = 1
        frame.request = .with { ($0.verb, $0.path, $0.id, $0.headers) = ("GET", "/v1/x", 7, headers) }
      } else {
        frame.type = 2
        frame.response = .with { ($0.id, $0.status, $0.headers) = (7, 200, headers) }
      }
      return ProtobufDialect().read(.binary(ByteBuffer(bytes: try frame.serializedBytes() as [UInt8])))
    }
    switch try read(headers: 100) {
    case .call(let call): #expect(isRequest && call.headers.count == 100)
    case .acknowledgement(let id): #expect(!isRequest && id == 7)
    default: Issue.record("not read")
    }
    for count in [101, 500_000] {
      guard case .malformed(let close) = try read(headers: count) else {
        Issue.record("read")
        continue
      }
      #expect(close.code == 1008)
    }
  }

  @Test func `delivery ids are random and positive, or count from 0`() {
    let ids = (0..<1000).map { _ in ProtobufDialect().deliveryID(after: nil) { _ in false } }
    #expect(Set(ids).count == 1000 && ids.allSatisfy { $0 > 0 && $0 <= UInt64(Int64.max) })
    #expect(JSONDialect().deliveryID(after: nil) { _ in false } == 0)
    #expect(JSONDialect().deliveryID(after: 0) { _ in false } == 1)
  }

  @Test func `JSON frames are read and written as the vectors say`() throws {
    let frames = try WholeRelayVectorTests.load("websocket_json_frames")
    let dialect = JSONDialect()
    for frame in frames {
      let direction = try #require(frame["direction"] as? String)
      let text = try #require(frame["text"] as? String)
      if direction.hasPrefix("client") {
        switch dialect.read(.text(ByteBuffer(string: text))) {
        case .acknowledgement(let id): #expect(id == 0 && direction.contains("ack"))
        case .ping: #expect(direction.contains("ping"))
        default: Issue.record("\(direction) was not understood")
        }
      } else if direction.contains("pong") {
        #expect(dialect.pong.map(payload) == Array(text.utf8))
      } else {
        let envelopes = try WholeRelayVectorTests.load("signaling_envelopes")
        let sealed = Data(bytes(try #require(envelopes[0]["envelope_hex"] as? String)))
        #expect(payload(try dialect.delivery(of: sealed, id: 0)) == Array(text.utf8))
      }
    }
  }

  @Test(arguments: ["", "{", "[]", #"{"id":1}"#, #"{"type":4}"#, #"{"type":"x"}"#, #"{"type":1.5}"#, "\u{0}"])
  func `a text that is no JSON frame is malformed`(text: String) {
    guard case .malformed(let close) = JSONDialect().read(.text(ByteBuffer(string: text))) else {
      Issue.record("read")
      return
    }
    #expect(close.code == 1008)
  }

  // MARK: Credentials

  private func login(_ query: String, header: String? = nil) -> SocketLogin? {
    var headers = HTTPFields()
    if let header { headers[.authorization] = header }
    return SocketLogin(
      SocketRequest(
        path: "/v1/websocket/", query: query[...], headers: headers,
        origin: RequestOrigin(address: nil, isSecure: false)))
  }

  @Test(arguments: [
    "login=%2B14155550101&password=a%2Bb%2F%3D", "login=+14155550101&password=a+b/=",
    "login=%2B14155550101.1&password=a+b%2F=", "login=+14155550101.1&password=a%20b/%3D",
    "password=a+b/=&login=%2b14155550101", "x=1&login=%2b14155550101&password=a+b/=&y",
  ])
  func `credentials are read however a client escapes them`(query: String) throws {
    let login = try #require(self.login(query))
    #expect(login.means == .login)
    let credentials = try #require(login.credentials)
    #expect(credentials.address.account.e164 == "+14155550101" && credentials.address.device == .master)
    #expect(credentials.password == Secret("a+b/="))
  }

  @Test func `user is another means, and so is the header`() throws {
    #expect(login("user=%2B14155550101.2&password=x")?.means == .user)
    #expect(login("user=%2B14155550101.2&password=x")?.credentials?.address.device == DeviceID(2))
    let header = "Basic " + Base64.encode(Array("+14155550101:x".utf8), padded: true)
    #expect(login("", header: header)?.means == .header)
    #expect(login("a=b", header: header)?.credentials?.password == Secret("x"))
    // The query's word counts.
    #expect(login("login=%2B14155550102&password=y", header: header)?.credentials?.password == Secret("y"))
  }

  @Test(arguments: [
    "", "password=x", "login=%2B14155550101&login=%2B14155550101&password=x",
    "login=%2B14155550101&password=x&password=x", "login=%2B14155550101&user=%2B14155550101&password=x",
    "login=%2&password=x", "login&password=x", "login=%2B14155550101&password=%FF",
  ])
  func `a query that says nothing, or more than one thing, is no login`(query: String) {
    #expect(login(query) == nil)
  }

  @Test(arguments: [
    "login=14155550101&password=x", "login=%2B14155550101", "login=%2B14155550101.0&password=x", "login=&password=",
  ])
  func `impossible credentials are none`(query: String) throws {
    let login = try #require(self.login(query))
    #expect(login.credentials == nil)
  }

  // MARK: Help

  private func bytes(_ hex: String) -> [UInt8] {
    let digits = Array(hex)
    return stride(from: 0, to: digits.count - 1, by: 2).compactMap { UInt8(String(digits[$0...($0 + 1)]), radix: 16) }
  }

  private func payload(_ message: SocketMessage) -> [UInt8] {
    switch message {
    case .text(let buffer), .binary(let buffer): Array(buffer.readableBytesView)
    }
  }

  private func envelope(_ fields: [String: Any], from device: Int64) throws -> Envelope {
    let (number, value) = (try #require(fields["source"] as? String), try #require(fields["type"] as? Int))
    let source = try #require(AccountNumber(e164: number))
    let type = try #require(MessageType(rawValue: Int16(value)))
    return Envelope(
      destination: DeviceAddress(source, .master), type: type,
      source: DeviceAddress(source, try #require(DeviceID(device))),
      relay: (fields["relay"] as? String).flatMap { RelayName($0) },
      timestamp: Timestamp(millis: try #require(fields["timestamp"] as? Int64)),
      message: (fields["message"] as? String).map(bytes), content: (fields["content"] as? String).map(bytes),
      fingerprint: Fingerprint(high: 0, low: 0))
  }
}

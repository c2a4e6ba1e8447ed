import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct WebServiceTests {
  private static func envelope(_ body: String, prolog: String = "") -> String {
    prolog + #"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"# + "\"><soapenv:Header/>"
      + "<soapenv:Body>\(body)</soapenv:Body></soapenv:Envelope>"
  }

  private static func request(user: String? = "acme", password: String? = "s3cret", last: String? = "0") -> String {
    let identification =
      (user.map { "<d:user>\($0)</d:user>" } ?? "") + (password.map { "<d:password>\($0)</d:password>" } ?? "")
    return #"<d:ReceivedMsgRequest xmlns:d="urn:device-notifications:v2">"#
      + "<d:identification>\(identification)<d:clientType>x</d:clientType></d:identification>\n"
      + (last.map { "<d:lastMsgNo>\n \($0) </d:lastMsgNo>" } ?? "") + "</d:ReceivedMsgRequest>"
  }

  @Test func `events are listed with their texts as they are`() async throws {
    try await NotificationSite.with { site in
      _ = try await site.subscribe(key: "k", message: "%3Ca%26b%3E%0Ac%01")
      let reply = try await site.soap(Self.envelope(Self.request()))
      #expect(reply.status == 200)
      #expect(reply.headers.first(name: "content-type") == "text/xml; charset=utf-8")
      let parts = [
        "<resultCode>0</resultCode><resultDescription>OK</resultDescription>",
        "<msgNo>12550</msgNo><createTime>2024-05-01T09:59:00Z</createTime><creatorName>acme</creatorName>",
        "<initialId>ACTION_SUB</initialId><msgType>DPN</msgType><originator ", #"xsi:nil="true"/>"#,
        "<originatorText>2000001</originatorText><subject>&lt;a&amp;b&gt;\nc\u{FFFD}</subject>",
        "<smsText>&lt;a&amp;b&gt;\nc\u{FFFD}</smsText>",
      ]
      for part in parts { #expect(reply.text.contains(part), "\(part)") }
      let none = try await site.soap(Self.envelope(Self.request(last: "12550")))
      #expect(none.text.contains("<messagesReceived></messagesReceived>"))
    }
  }

  @Test func `codes are those of the interface, in its order`() async throws {
    try await NotificationSite.with { site in
      let requests = [
        (Self.request(user: nil, password: nil), 23), (Self.request(user: "", password: nil), 22),
        (Self.request(password: nil), 25), (Self.request(password: ""), 24),
        (Self.request(password: "wrong", last: nil), 7), (Self.request(last: nil), 392),
        (Self.request(last: "-1"), 391),
      ]
      for (request, code) in requests {
        let reply = try await site.soap(Self.envelope(request))
        #expect(reply.status == 200)
        #expect(reply.text.contains("<resultCode>\(code)</resultCode>"), "\(code)")
      }
    }
  }

  @Test func `a malformed request is the client's fault, and entities are refused`() async throws {
    try await NotificationSite.with { site in
      let entity = #"<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>"#
      let encoded = #"<?xml version="1.0" encoding="ISO-8859-1"?>"#
      let faults = [
        "<a>", "", "no XML", Self.envelope("<a/>"), Self.envelope(""),
        Self.envelope(Self.request(user: "&e;"), prolog: entity), Self.envelope(Self.request(user: "&e;")),
        Self.envelope(Self.request(), prolog: encoded),
        Self.envelope(Self.request() + Self.request()),
        Self.request(),
        // Not well-formed to the end.
        String(Self.envelope(Self.request()).dropLast()), String(Self.envelope(Self.request()).dropLast(20)),
        Self.envelope(Self.request()) + "junk", Self.envelope(Self.request()) + "<a/>",
        Self.envelope(Self.request()) + Self.envelope(Self.request()), Self.envelope(Self.request(user: "a & b")),
        Self.envelope(Self.request(user: "<b>x</c>")), Self.envelope(Self.request(user: "\u{1}")),
        "junk" + Self.envelope(Self.request()), Self.envelope("<x:y/>" + Self.request()),
        Self.envelope(Self.request(user: String(repeating: "<a>", count: 5000))),
        Self.envelope(
          Self.request(
            user: String(repeating: "<a>", count: 200) + "x" + String(repeating: "</a>", count: 200))),
      ]
      for fault in faults {
        let reply = try await site.soap(fault)
        #expect(reply.status == 500, "\(fault.prefix(60))")
        #expect(reply.text.contains("<faultcode>soap:Client</faultcode>") && !reply.text.contains("root:"))
      }
      let typed = try await NotificationSite.request(
        "http://127.0.0.1:\(site.port)/external/ws/notifications", .POST, body: "x=1",
        headers: ["content-type": "application/x-www-form-urlencoded"])
      #expect(typed.status == 415)
    }
  }

  /// UTF-16 without a mark.
  private static func bytes(_ units: [UInt16], lowFirst: Bool) -> [UInt8] {
    units.flatMap { unit in
      let (high, low) = (UInt8(unit >> 8), UInt8(unit & 0xFF))
      return lowFirst ? [low, high] : [high, low]
    }
  }

  @Test func `no encoding hides a document type`() async throws {
    try await NotificationSite.with { site in
      let plain = Self.envelope(Self.request())
      let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
      let type = "<!DOCTYPE x>"
      let far = String(repeating: " ", count: 5000)
      let (utf8, latin) = (#" encoding="UTF-8"?>"#, #" encoding="ISO-8859-1"?>"#)
      let version = #"<?xml version="1.0""#
      for (index, taken) in [plain, version + utf8 + plain].enumerated() {
        for bytes in [Array(taken.utf8), mark + Array(taken.utf8)] {
          let reply = try await site.soap(bytes)
          #expect(reply.status == 200 && reply.text.contains("<resultCode>0</resultCode>"), "\(index) \(bytes[0])")
        }
      }
      var refused: [(String, [UInt8])] = [
        ("type", Array((type + plain).utf8)),
        ("type behind a declaration", Array((version + utf8 + type + plain).utf8)),
        ("type far behind", Array((version + utf8 + "<!--\(far)-->" + type + plain).utf8)),
        ("type behind a mark", mark + Array((type + plain).utf8)),
        ("encoding", Array((version + latin + plain).utf8)),
        ("encoding far behind", Array((version + far + latin + plain).utf8)),
        ("encoding behind a mark", mark + Array((version + far + latin + plain).utf8)),
      ]
      for text in [plain, type + plain, version + #" encoding="UTF-16"?>"# + type + plain] {
        let units = Array(text.utf16)
        refused.append(("UTF-16LE", Self.bytes(units, lowFirst: true)))
        refused.append(("UTF-16BE", Self.bytes(units, lowFirst: false)))
      }
      for (name, bytes) in refused {
        let reply = try await site.soap(bytes)
        #expect(reply.status == 500, "\(name)")
        #expect(reply.text.contains("<faultcode>soap:Client</faultcode>"), "\(name)")
      }
    }
  }

  @Test func `processing instructions are refused, wherever they stand`() async throws {
    try await NotificationSite.with { site in
      let (plain, declaration) = (Self.envelope(Self.request()), #"<?xml version="1.0"?>"#)
      // The first two are no instructions: their name is reserved.
      for instruction in ["<?xml?>", "<?XML?>", "<?x?>", "<?xml-stylesheet?>", "<?x y?>"] {
        let inside = Self.envelope(Self.request(user: "u\(instruction)"))
        for document in [instruction + plain, declaration + instruction + plain, plain + instruction, inside] {
          let reply = try await site.soap(document)
          #expect(reply.status == 500, "\(instruction)")
          let text =
            instruction.lowercased() == "<?xml?>"
            ? "not well-formed" : "Processing instructions are not accepted."
          #expect(reply.text.contains(text), "\(instruction): \(reply.text)")
        }
      }
      #expect(try await site.soap(declaration + plain).status == 200)
    }
  }

  @Test func `the description says where the service is`() async throws {
    try await NotificationSite.with { site in
      let url = "http://127.0.0.1:\(site.port)/external/ws/notifications"
      let reply = try await NotificationSite.request(url + "?wsdl")
      #expect(reply.status == 200)
      #expect(reply.text.contains("<soap:address location=\"\(url)\"/>"))
      let bare = try await NotificationSite.request(url)
      #expect(bare.status == 404)
    }
  }
}

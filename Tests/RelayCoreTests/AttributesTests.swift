import RelayCore
import TestTags
import Testing

/// Things that devices say of themselves.
@Suite(.tags(.unit)) struct AttributesTests {
  @Test func `attributes are read whole`() throws {
    let text = #"{"signalingKey":"k","registrationId":"7","supportsSms":true,"voice":"true","name":"n","pin":"1234"}"#
    let attributes = try decode(text, AccountAttributes.decode)
    #expect(attributes.signalingKey == Secret("k") && attributes.registrationID == 7)
    #expect(attributes.supportsSMS && attributes.voice && !attributes.fetchesMessages)
    #expect(attributes.name == "n" && attributes.pin == Secret("1234"))
  }

  @Test(
    arguments: [("", nil), ("null", nil), ("true", true), ("false", false), (#""false""#, false)] as [(String, Bool?)])
  func `an account that does not say whether to be found leaves it as it is`(value: String, expected: Bool?) throws {
    let property = value.isEmpty ? "" : #","discoverableByPhoneNumber":\#(value)"#
    let attributes = try decode(#"{"signalingKey":"k"\#(property)}"#, AccountAttributes.decode)
    #expect(attributes.isDiscoverable == expected)
  }

  @Test func `a name may have 50 characters and no more`() throws {
    for (count, isGood) in [(50, true), (51, false), (60_000, false)] {
      let name = String(repeating: "é", count: count)
      let attributes = try decode(#"{"signalingKey":"k","name":"\#(name)"}"#, AccountAttributes.decode)
      #expect(attributes.name == name)
      if isGood {
        try attributes.checkName()
      } else {
        #expect(throws: Problem(.deviceNameTooLong)) { try attributes.checkName() }
      }
    }
  }

  @Test func `a name may have 400 bytes and no more, however few its characters`() throws {
    for (marks, isGood) in [(199, true), (200, false), (20_000, false)] {
      // Two characters, of two bytes for each mark.
      let name = "aa" + String(repeating: "\u{0301}", count: marks)
      let attributes = try decode(#"{"signalingKey":"k","name":"\#(name)"}"#, AccountAttributes.decode)
      #expect((name.utf8.count <= 400) == isGood)
      if isGood {
        try attributes.checkName()
      } else {
        #expect(throws: Problem(.deviceNameTooLong)) { try attributes.checkName() }
      }
    }
  }

  @Test func `200 characters and 800 bytes of an agent are kept, whole characters alone`() {
    #expect(AccountAttributes.keptAgent("OWA") == "OWA")
    #expect(AccountAttributes.keptAgent(String(repeating: "a", count: 900)) == String(repeating: "a", count: 200))
    #expect(AccountAttributes.keptAgent(String(repeating: "😀", count: 900)) == String(repeating: "😀", count: 200))
    let marked = "a" + String(repeating: "\u{0301}", count: 100)
    #expect(AccountAttributes.keptAgent(String(repeating: marked, count: 9)) == String(repeating: marked, count: 3))
    #expect(AccountAttributes.keptAgent("a" + String(repeating: "\u{0301}", count: 8000)) == "")
  }

  @Test func `a pin has 4 to 100 characters`() throws {
    for (count, isGood) in [(0, false), (3, false), (4, true), (100, true), (101, false)] {
      let pin = String(repeating: "ü", count: count)
      let shape: JSONError? = isGood ? nil : .wrongShape
      #expect(failure { try decode(#"{"pin":"\#(pin)"}"#, PinCodec.decode) } == shape, "\(count)")
      #expect(failure { try decode(#"{"signalingKey":"k","pin":"\#(pin)"}"#, AccountAttributes.decode) } == shape)
    }
    #expect(try decode(#"{"a":[],"pin":"12 34"}"#, PinCodec.decode) == Secret("12 34"))
    let endless = "aaa" + "a" + String(repeating: "\u{0301}", count: 5000)
    for body in ["{}", #"{"pin":null}"#, #"{"pin":1234}"#, #"{"pin":"\#(endless)"}"#] {
      #expect(failure { try decode(body, PinCodec.decode) } == .wrongShape, "\(body.prefix(20))")
    }
  }

  @Test func `push ids are opaque, but neither empty nor endless`() throws {
    let gcm = try decode(#"{"gcmRegistrationId":"a b","webSocketChannel":"true"}"#, GCMRegistration.decode)
    #expect(gcm.id == Secret("a b") && gcm.fetchesMessages)
    let alone = try decode(#"{"gcmRegistrationId":"x","webSocketChannel":null}"#, GCMRegistration.decode)
    #expect(alone.id == Secret("x") && !alone.fetchesMessages)
    let apn = try decode(#"{"apnRegistrationId":"x","voipRegistrationId":"y"}"#, APNRegistration.decode)
    #expect(apn.id == Secret("x") && apn.voip == Secret("y"))
    for absent in ["", #","voipRegistrationId":null"#, #","voipRegistrationId":"""#] {
      let form = try decode(#"{"apnRegistrationId":"x"\#(absent)}"#, APNRegistration.decode)
      #expect(form.id == Secret("x") && form.voip == nil)
    }
    let longest = String(repeating: "a", count: 4096)
    #expect(try decode(#"{"gcmRegistrationId":"\#(longest)"}"#, GCMRegistration.decode).id.value == longest)
    for id in ["null", "\"\"", "7", "\"\(longest)a\""] {
      #expect(failure { try decode(#"{"gcmRegistrationId":\#(id)}"#, GCMRegistration.decode) } == .wrongShape)
      #expect(failure { try decode(#"{"apnRegistrationId":\#(id)}"#, APNRegistration.decode) } == .wrongShape)
    }
    let voip = #"{"apnRegistrationId":"x","voipRegistrationId":"\#(longest)a"}"#
    #expect(failure { try decode(voip, APNRegistration.decode) } == .wrongShape)
  }

  @Test func `devices are listed with their names, or null, and the day they were seen`() throws {
    let password = PasswordHash(salt: [], hash: [])
    let device = { (id: Int64, name: String?) in
      Device(
        id: try #require(DeviceID(id)), password: password, signalingKey: Secret("k"), registrationID: 0,
        fetchesMessages: true, name: name, lastSeen: Timestamp(millis: 86_400_000 * 3 + 5),
        created: Timestamp(millis: 7))
    }
    let bytes = DevicesCodec.encode([try device(1, nil), try device(2, "a\"b")])
    #expect(
      String(decoding: bytes, as: UTF8.self) == #"{"devices":[{"id":1,"name":null,"lastSeen":259200000,"created":7},"#
        + #"{"id":2,"name":"a\"b","lastSeen":259200000,"created":7}]}"#)
    #expect(String(decoding: DevicesCodec.encode([]), as: UTF8.self) == #"{"devices":[]}"#)
    let code = DevicesCodec.encode(code: Secret("123456"))
    #expect(String(decoding: code, as: UTF8.self) == #"{"verificationCode":"123456"}"#)
    let linked = DevicesCodec.encode(linked: try #require(DeviceID(2)))
    #expect(String(decoding: linked, as: UTF8.self) == #"{"deviceId":2}"#)
  }

  /// The error that `body` throws, if any.
  private func failure(_ body: () throws -> some Any) -> JSONError? {
    do {
      _ = try body()
      return nil
    } catch {
      return error as? JSONError
    }
  }
}

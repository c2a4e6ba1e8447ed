import RelayCore
import TestTags
import Testing

/// Prekeys of version 2 on the wire (reference 1.7).
@Suite(.tags(.unit)) struct PreKeyCodecV2Tests {
  private static let signed = SignedPreKey(keyID: 5, publicKey: "S", signature: "sig")

  @Test func `an upload is read, numbers as strings too, unknown properties skipped`() throws {
    let upload = try decode(
      #"""
      {"preKeys":[{"keyId":0,"publicKey":"a"},{"keyId":"7","publicKey":"b","identityKey":"",
       "deviceId":0,"registrationId":"x"}],"new":[{}],
       "signedPreKey":{"keyId":5,"publicKey":"S","signature":"sig"},"lastResortKey":{"keyId":9,"publicKey":"c"},
       "identityKey":"I"}
      """#, PreKeyCodec.decodeUploadV2)
    #expect(
      upload
        == PreKeyUpload(
          identityKey: "I", oneTimeKeys: [PreKey(keyID: 0, publicKey: "a"), PreKey(keyID: 7, publicKey: "b")],
          lastResort: PreKey(keyID: 9, publicKey: "c"), signedPreKey: Self.signed))
  }

  /// Clients of 2014 write all fields of the class that also reads answers (reference 1.1: unknown properties).
  @Test func `an upload of version 1 may name a device that is none`() throws {
    let upload = try decode(
      #"""
      {"lastResortKey":{"deviceId":0,"keyId":9,"publicKey":"c","identityKey":"I","registrationId":0},
       "keys":[{"deviceId":0,"keyId":1,"publicKey":"a","identityKey":"I","registrationId":99999999999}]}
      """#, PreKeyCodec.decodeUpload)
    #expect(
      upload
        == PreKeyUpload(
          identityKey: "I", oneTimeKeys: [PreKey(keyID: 1, publicKey: "a")],
          lastResort: PreKey(keyID: 9, publicKey: "c")))
  }

  @Test(arguments: ["", #","lastResortKey":null"#]) func `a last resort may be absent`(part: String) throws {
    let upload = try decode(
      #"{"identityKey":"I","preKeys":[],"signedPreKey":{"keyId":5,"publicKey":"S","signature":"sig"}\#(part)}"#,
      PreKeyCodec.decodeUploadV2)
    #expect(upload == PreKeyUpload(identityKey: "I", oneTimeKeys: [], lastResort: nil, signedPreKey: Self.signed))
  }

  @Test(arguments: [
    "{}", #"{"identityKey":"I","preKeys":[]}"#,
    #"{"preKeys":[],"signedPreKey":{"keyId":5,"publicKey":"S","signature":"s"}}"#,
    #"{"identityKey":"","preKeys":[],"signedPreKey":{"keyId":5,"publicKey":"S","signature":"s"}}"#,
    #"{"identityKey":"I","signedPreKey":{"keyId":5,"publicKey":"S","signature":"s"}}"#,
    #"{"identityKey":"I","preKeys":null,"signedPreKey":{"keyId":5,"publicKey":"S","signature":"s"}}"#,
    #"{"identityKey":"I","preKeys":[],"signedPreKey":null}"#,
    #"{"identityKey":"I","preKeys":[],"signedPreKey":{"keyId":5,"publicKey":"S"}}"#,
    #"{"identityKey":"I","preKeys":[],"signedPreKey":{"keyId":5,"publicKey":"S","signature":""}}"#,
    #"{"identityKey":"I","preKeys":[],"signedPreKey":{"keyId":-5,"publicKey":"S","signature":"s"}}"#,
    #"{"identityKey":"I","preKeys":[{"keyId":1}],"signedPreKey":{"keyId":5,"publicKey":"S","signature":"s"}}"#,
  ])
  func `an upload of another shape is refused`(json: String) {
    #expect(throws: JSONError.wrongShape) { try decode(json, PreKeyCodec.decodeUploadV2) }
  }

  @Test func `a drawn key reads as it was written, missing keys as null`() throws {
    let drawn = [
      DrawnPreKey(
        device: .master, registrationID: 1234, identityKey: "I", preKey: PreKey(keyID: 7, publicKey: "P"),
        signedPreKey: Self.signed),
      DrawnPreKey(
        device: try #require(DeviceID(2)), registrationID: 0, identityKey: "I", preKey: PreKey(keyID: 0, publicKey: "Q")
      ),
      DrawnPreKey(
        device: try #require(DeviceID(3)), registrationID: 9, identityKey: "I", preKey: nil, signedPreKey: Self.signed),
    ]
    let bytes = PreKeyCodec.encodeV2(drawn)
    #expect(
      String(decoding: bytes, as: UTF8.self)
        == #"{"identityKey":"I","devices":[{"deviceId":1,"registrationId":1234,"#
        + #""signedPreKey":{"keyId":5,"publicKey":"S","signature":"sig"},"preKey":{"keyId":7,"publicKey":"P"}},"#
        + #"{"deviceId":2,"registrationId":0,"signedPreKey":null,"preKey":{"keyId":0,"publicKey":"Q"}},"#
        + #"{"deviceId":3,"registrationId":9,"signedPreKey":{"keyId":5,"publicKey":"S","signature":"sig"},"#
        + #""preKey":null}]}"#)
    #expect(try PreKeyCodec.decodeDrawnV2(bytes.span.bytes) == drawn)
  }

  @Test(arguments: [
    "{}", #"{"devices":[]}"#, #"{"identityKey":"I","devices":[{"deviceId":1}]}"#,
    #"{"identityKey":"I","devices":[{"deviceId":0,"preKey":{"keyId":7,"publicKey":"P"}}]}"#,
    #"{"identityKey":"I","devices":[{"deviceId":1,"preKey":{"keyId":7,"publicKey":""}}]}"#,
  ])
  func `an answer of another shape is refused`(json: String) {
    #expect(throws: JSONError.wrongShape) { try decode(json, PreKeyCodec.decodeDrawnV2) }
  }

  @Test func `a signed prekey reads as it was written`() throws {
    let bytes = PreKeyCodec.encode(Self.signed)
    #expect(String(decoding: bytes, as: UTF8.self) == #"{"keyId":5,"publicKey":"S","signature":"sig"}"#)
    #expect(try PreKeyCodec.decodeSigned(bytes.span.bytes) == Self.signed)
    for json in ["null", "{}", #"{"keyId":5,"publicKey":"S"}"#] {
      #expect(throws: JSONError.wrongShape) { try decode(json, PreKeyCodec.decodeSigned) }
    }
    #expect(throws: JSONError.malformed) {
      try decode(#"{"keyId":5,"publicKey":"S","signature":"s"} x"#, PreKeyCodec.decodeSigned)
    }
  }
}

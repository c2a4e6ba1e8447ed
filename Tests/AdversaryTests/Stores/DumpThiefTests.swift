// Somebody has a copy of the store, and of nothing else.

import Crypto
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct DumpThiefTests {
  private static let settings = Victim.unlimited.merging([
    "RELAY_STORAGE_ENCRYPTION_KEY": Data((0..<32).map { UInt8($0) }).base64EncodedString()
  ]) { $1 }

  /// A code is one of 900,000: whatever is computed from it and the store alone is found in a second.
  @Test(arguments: StoreKind.allCases) func `a dump tells no pending code`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let phone = try await victim.relay.register()
      // A number whose code is pending, and another code that links a device.
      let number = "+1777\(Int.random(in: 1_000_000...9_999_999))"
      let code = try await victim.relay.code(for: number)
      let link = try await victim.relay.send("GET", "/v1/devices/provisioning/code", as: phone)
      let shown = try #require(link.object["verificationCode"] as? String)
      let linking = shown.filter(\.isNumber)
      let rows = try await victim.codeColumns()
      #expect(rows.count == 2 && rows.allSatisfy { $0.count == 32 })
      let secret = try #require(try await victim.withStorage { try await $0.serverSecret("pending-codes") })

      for (text, holder, purpose) in [(code, number, "registration"), (linking, phone.number, "linking")] {
        #expect(!rows.contains(Array(text.utf8)))
        // As the relay computes it, under all that the dump has in place of the key.
        for start in 0...(secret.count - 32) {
          let key = SymmetricKey(data: secret[start..<start + 32])
          let guess = HMAC<SHA256>.authenticationCode(for: Data("\(purpose)\n\(holder)\n\(text)".utf8), using: key)
          #expect(!rows.contains(Array(guess)))
        }
        for guess in [text, "\(holder)\(text)", "\(holder):\(text)", "\(purpose)\n\(holder)\n\(text)"] {
          #expect(!rows.contains(Array(SHA256.hash(data: Data(guess.utf8)))))
        }
      }
      // Both can be used all the same.
      let body = #"{"signalingKey":"c2lnbmFsaW5n","registrationId":7,"fetchesMessages":true}"#
      let owner = TestDevice(number: number, password: "of the owner")
      #expect(try await victim.relay.send("PUT", "/v1/accounts/code/\(code)", json: body, as: owner).status == 200)
      let linked = TestDevice(number: phone.number, password: "of the linked device")
      let answer = try await victim.relay.send("PUT", "/v1/devices/\(linking)", json: body, as: linked)
      #expect(answer.status == 200, "\(answer.text)")
    }
  }

  @Test(arguments: StoreKind.allCases) func `a dump signs no attachment URL`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.settings) { victim in
      let phone = try await victim.relay.register()
      let given = try await victim.relay.send("GET", "/v1/attachments", as: phone)
      let location = try #require(given.object["location"] as? String)
      let url = try #require(URLComponents(string: location))
      let items = Dictionary(uniqueKeysWithValues: (url.queryItems ?? []).map { ($0.name, $0.value ?? "") })
      let id = try #require(url.path.split(separator: "/").last)
      let (expires, signature) = (try #require(items["expires"]), try #require(items["signature"]))
      let secret = try #require(try await victim.withStorage { try await $0.serverSecret("attachment-urls") })
      #expect(secret.count > 32)
      for start in 0...(secret.count - 32) {
        let key = SymmetricKey(data: secret[start..<start + 32])
        let forged = HMAC<SHA256>.authenticationCode(for: Data("PUT\n\(id)\n\(expires)".utf8), using: key)
        #expect(forged.map { String(format: "%02x", $0) }.joined() != signature)
      }
    }
  }
}

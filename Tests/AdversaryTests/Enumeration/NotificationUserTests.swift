// Passwords that people chose for users of device notifications: a thief of the database, and a flood of guesses.

import AsyncHTTPClient
import ChildProcesses
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct NotificationUserTests {
  private static let password = "correct horse battery"

  /// Runs `relay notifications user ARGUMENTS --password-stdin` with `password` as the first line of its input.
  private static func user(_ arguments: [String], _ password: String, _ site: RelayOperator) async throws {
    let script = #"printf '%s\n' "$1" | "$2" notifications user "$3" "$4" --password-stdin"#
    let log = "\(site.folder)/user-\(UUID().uuidString).txt"
    let child = try await ChildProcess.start(
      ChildProcess.Launch(
        command: ["/bin/sh", "-c", script, "sh", password, try RelayExecutable.path()] + arguments,
        environment: site.environment(), folder: site.folder, standardOutput: log, standardError: log))
    let exit = await child.killed(after: .seconds(60))
    guard exit == .code(0) else {
      throw TestFailure(
        "\(arguments): \(exit) \(String(decoding: try Data(contentsOf: URL(filePath: log)), as: UTF8.self))")
    }
  }

  private static func with(
    _ kind: StoreKind,
    _ body: (_ victim: Victim, _ send: @escaping @Sendable (String) async throws -> String) async throws
      -> Void
  ) async throws {
    let port = try Loopback.freePorts(1)[0]
    let settings = Victim.unlimited.merging([
      "RELAY_DEVICE_NOTIFICATIONS_PORT": "\(port)", "RELAY_DEVICE_NOTIFICATIONS_PLAIN": "true",
    ]) { $1 }
    try await Victim.with(kind, settings: settings) { victim in
      try await user(["add", "acme"], password, victim.site)
      try await body(victim) { password in
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/external/notifications/send")
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let word = password.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        request.body = .bytes(ByteBuffer(string: "user=acme&pwd=\(word)&message=Hello&recipients=1"))
        let answer = try await HTTPClient.shared.execute(request, timeout: .seconds(300))
        let text = String(buffer: try await answer.body.collect(upTo: 1 << 16))
        return answer.status == .ok ? text.split(separator: "\n").joined(separator: " ") : "\(answer.status.code)"
      }
    }
  }

  private final class Flood: Sendable { let isOver = Mutex(false) }

  /// The password was right: there are no recipients.
  private static let right = "N 28"
  private static let wrong = "N 7"

  @Test(arguments: StoreKind.allCases) func `a chosen password lies under a slow hash`(kind: StoreKind) async throws {
    try await Self.with(kind) { victim, send in
      let name = try #require(NotificationUser("acme"))
      let stored = try await victim.withStorage { storage in
        try await storage.notificationAccount(name, now: Timestamp(millis: 0))?.password
      }
      let hash = try #require(stored)
      // A version and scrypt's cost: 2^15 rounds of 8 blocks.
      #expect(hash.hash.count == 36 && hash.salt.count == 16)
      #expect(Array(hash.hash.prefix(4)) == [1, 15, 8, 1])
      let fast = HMAC<SHA256>.authenticationCode(
        for: Array(Self.password.utf8), using: SymmetricKey(data: hash.salt))
      #expect(Array(hash.hash.suffix(32)) != Array(fast))
      #expect(try await send(Self.password) == Self.right)
      #expect(try await send("correct horse batterz") == Self.wrong)
      #expect(!victim.relay.log().contains(Self.password))
    }
  }

  @Test(arguments: StoreKind.allCases) func `a flood of wrong passwords does not delay users with the right one`(
    kind: StoreKind
  ) async throws {
    try await Self.with(kind) { _, send in
      #expect(try await send(Self.password) == Self.right)
      let flood = Flood()
      let lanes = (0..<16).map { lane in
        Task {
          var answers: [String] = []
          var guess = 0
          while !flood.isOver.withLock({ $0 }) {
            answers.append(try await send("guess-\(lane)-\(guess)"))
            guess += 1
          }
          return answers
        }
      }
      // One after the other: each would wait for derivations that others have begun.
      for _ in 0..<50 { #expect(try await send(Self.password) == Self.right) }
      flood.isOver.withLock { $0 = true }
      var answers: [String] = []
      for lane in lanes { answers += try await lane.value }
      #expect(answers.allSatisfy { $0 == Self.wrong || $0 == "429" }, "\(Set(answers))")
      #expect(answers.contains("429"), "the queue has a bound")
    }
  }

  @Test(arguments: StoreKind.allCases) func `a new password ends the old one at once`(kind: StoreKind) async throws {
    try await Self.with(kind) { victim, send in
      #expect(try await send(Self.password) == Self.right)
      try await Self.user(["set", "acme"], "another horse", victim.site)
      #expect(try await send(Self.password) == Self.wrong)
      #expect(try await send("another horse") == Self.right)
      try await victim.site.relay("notifications", "user", "set", "acme", "--new-password")
      #expect(try await send("another horse") == Self.wrong)
    }
  }
}

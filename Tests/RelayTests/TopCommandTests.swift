import ChildProcesses
import Foundation
import Glibc
import Synchronization
import TestSupport
import TestTags
import Testing

/// `relay top`, as scripts and terminals see it.
@Suite(.tags(.processes)) struct TopCommandTests {
  private static func object(_ text: String) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
  }

  private static let message = #"{"type":1,"destinationDeviceId":1,"destinationRegistrationId":111,"body":"QUJD"}"#

  @Test func `rates, stores, peers and senders are shown once as JSON`() async throws {
    let token = String(repeating: "t", count: 32)
    let settings = RelayUnderTest.unlimited.merging(["RELAY_OPERATOR_READ_TOKENS": "viewer:\(token)"]) { $1 }
    try await PeeredOperator.withTwo(settings: settings) { alpha, _ in
      let relay = alpha.relay
      let (ann, bob) = (try await relay.register(), try await relay.register())
      let socket = try await RawSocket.open(
        "/v1/websocket/?login=%2B\(bob.number.dropFirst())&password=\(bob.password)", on: relay.clientPort)
      try await eventually("alpha has asked beta") {
        try await relay.ask("/metrics").text.contains("relay_peer_available{")
      }
      // As long as it is looked, something is sent.
      let site = alpha.site
      let isDone = Mutex(false)
      async let done = {
        defer { isDone.withLock { $0 = true } }
        return try await site.relay(
          "top", "--once", "--json", "--every", "2", "--url", relay.operatorURL, "--url", "http://127.0.0.1:1")
      }()
      var sent = 0
      while !isDone.withLock({ $0 }) {
        sent += 1
        let body = #"{"messages":[\#(Self.message)],"timestamp":\#(sent)}"#
        #expect(try await relay.send("PUT", "/v1/messages/\(bob.number)", json: body, as: ann).status == 200)
        try await Task.sleep(for: .milliseconds(50))
      }
      let text = try await done
      await socket.close()
      let report = try Self.object(text)
      #expect(report["name"] as? String == "alpha")
      let edges = try #require(report["requests"] as? [[String: Any]])
      let client = try #require(edges.first { $0["edge"] as? String == "client" })
      #expect((client["perSecond"] as? Double ?? 0) > 1 && (client["p99Millis"] as? Double ?? 0) > 0)
      #expect(client["failedPerSecond"] as? Double == 0)
      let delivery = try #require(report["delivery"] as? [String: Any])
      #expect(delivery["connections"] as? Double == 1)
      let stores = try #require(report["stores"] as? [String: Any])
      #expect(stores["takesWrites"] as? Bool == true)
      let peers = try #require(report["peers"] as? [[String: Any]])
      #expect(peers.map { $0["name"] as? String } == ["beta"] && peers[0]["answers"] as? Bool == true)
      let processes = try #require(report["processes"] as? [[String: Any]])
      #expect(processes.map { $0["isReady"] as? Bool } == [true, false])
      #expect(processes[1]["fault"] as? String == "nobody listens there")
      let senders = try #require(report["senders"] as? [[String: Any]])
      #expect(senders.count == 1 && (senders[0]["perMinute"] as? Double ?? 0) > 10)
      for number in [ann.number, bob.number] { #expect(!text.contains(number.dropFirst())) }
      #expect(!text.contains(token))
    }
  }

  @Test func `lines fit 80 columns where there is no terminal, and nobody who answers is an error`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let shown = try await site.relay("top", "--every", "1", "--url", relay.operatorURL)
      let lines = shown.split(separator: "\n")
      #expect(lines.allSatisfy { $0.count <= 80 }, "\(shown)")
      for word in ["REQUESTS", "DELIVERY", "STORES", "PROCESS", "SENDERS", "ready"] { #expect(shown.contains(word)) }
      #expect(!shown.contains("\u{1B}"))
      let silent = try await site.run(["top", "--once", "--url", "http://127.0.0.1:1"])
      #expect(silent.exit == .code(1) && silent.errors.contains("nobody listens there"), "\(silent.errors)")
      for arguments in [["--every", "0"], ["--url", "https://x"]] {
        #expect(try await site.run(["top"] + arguments).exit == .code(64))
      }
      #expect(await relay.terminate() == .code(0))
    }
  }

  @Test func `it ends when nobody reads its lines`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let output = site.folder + "/head.txt"
      let top = "\(try RelayExecutable.path()) top --json --every 1 --url \(relay.operatorURL)"
      let command = "set -o pipefail; timeout 60 \(top) | head -n 1"
      let child = try await ChildProcess.start(
        ChildProcess.Launch(
          command: ["/bin/bash", "-c", command], environment: site.environment(), folder: site.folder,
          standardOutput: output, standardError: output))
      #expect(await child.killed(after: .seconds(90)) == .code(0))
      let lines = try String(contentsOfFile: output, encoding: .utf8).split(separator: "\n")
      #expect(lines.count == 1 && lines[0].hasPrefix("{"), "\(lines)")
    }
  }

  @Test func `in a terminal it redraws, follows the size and gives the terminal back`() async throws {
    try await RelayOperator.with { site in
      let relay = try await site.serve()
      let session = "relay-top-\(UUID().uuidString)"
      func tmux(_ arguments: String...) async throws -> String {
        let output = site.folder + "/tmux-\(UUID().uuidString).txt"
        let child = try await ChildProcess.start(
          ChildProcess.Launch(
            command: ["tmux", "-L", session, "-f", "/dev/null"] + arguments, environment: site.environment(),
            folder: site.folder, standardOutput: output, standardError: output))
        _ = await child.killed(after: .seconds(20))
        return try String(contentsOfFile: output, encoding: .utf8)
      }
      do {
        let command = "\(try RelayExecutable.path()) top --every 1 --url \(relay.operatorURL); echo ended; sleep 60"
        _ = try await tmux("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", command)
        try await eventually("it is drawn", within: .seconds(20)) {
          let screen = try await tmux("capture-pane", "-p")
          return screen.contains("REQUESTS") && screen.contains("ready")
        }
        // Drawn again each second: the time moves.
        let first = try await tmux("capture-pane", "-p").prefix(80)
        try await eventually("it is drawn again", within: .seconds(20)) {
          try await tmux("capture-pane", "-p").prefix(80) != first
        }
        await relay.kill9()
        try await eventually("the process is down", within: .seconds(20)) {
          try await tmux("capture-pane", "-p").contains("DOWN")
        }
        _ = try await tmux("send-keys", "q")
        try await eventually("the first screen is back", within: .seconds(20)) {
          let screen = try await tmux("capture-pane", "-p")
          return screen.contains("ended") && !screen.contains("REQUESTS")
        }
      } catch {
        _ = try await tmux("kill-server")
        throw error
      }
      _ = try await tmux("kill-server")
    }
  }
}

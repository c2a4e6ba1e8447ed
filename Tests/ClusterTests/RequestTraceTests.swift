import ChildProcesses
import Foundation
import TestSupport
import TestTags
import Testing

/// Two operators speak of one failure by the id of the request.
@Suite(.tags(.processes)) struct RequestTraceTests {
  @Test func `a request that a peer does not serve is found by one id in both logs`() async throws {
    let logs = Cluster.unlimited.merging(["RELAY_LOG_FORMAT": "json"]) { $1 }
    try await RelayOperator.with("alpha", settings: logs) { alpha in
      try await Cluster.with("beta", settings: logs, ownPostgres: true) { beta in
        let here = try await PeeredSites.start(alpha)
        let there = try await PeeredSites.start(beta.site)
        do {
          let invited = try await alpha.relay("peer", "invite").split(separator: "\n")
          try await beta.site.relay("peer", "accept", String(try #require(invited.last)))
          let ann = try await here.register()
          let bob = try await there.register()
          try await expectServed(here, ann, bob)
          try await Loopback.blocking { try beta.postgres.stop() }
          try await expectExplained(ann, bob, here, there, by: alpha)
        } catch {
          for relay in [here, there] { await relay.kill9() }
          throw error
        }
        for relay in [here, there] { await relay.terminate() }
      }
    }
  }

  private func expectServed(_ here: RelayProcess, _ ann: TestDevice, _ bob: TestDevice) async throws {
    let path = "/v1/messages/\(bob.number)"
    try await eventually("the peering is known everywhere") {
      try await here.send("PUT", path, json: toBeta(1), as: ann).status == 200
    }
    // A client does not choose what stands in the log.
    let chosen = "aaaaaaaaaaaaa"
    let answers = [
      try await here.send("PUT", path, json: toBeta(2), as: ann, headers: [("X-Request-ID", chosen)]),
      try await here.send("GET", "/v1/nowhere", headers: [("X-Request-ID", chosen)]),
    ]
    let ids = answers.compactMap { $0.headers["x-request-id"] }
    #expect(Set(ids).count == 2 && !ids.contains(chosen) && ids.allSatisfy { $0.utf8.count == 13 }, "\(ids)")
  }

  private func expectExplained(
    _ ann: TestDevice, _ bob: TestDevice, _ here: RelayProcess, _ there: RelayProcess, by alpha: RelayOperator
  ) async throws {
    // Side by side, so that some of the messages travel in one batch.
    let ids = try await withThrowingTaskGroup(of: String.self) { group in
      for time in 10..<30 {
        group.addTask {
          let path = time == 10 ? "/v2/keys/\(bob.number)/*?relay=beta" : "/v1/messages/\(bob.number)"
          let answer = try await here.send(
            time == 10 ? "GET" : "PUT", path, json: time == 10 ? nil : toBeta(time), as: ann)
          #expect(answer.status == 503, "\(path): \(answer.status) \(answer.text)")
          return try #require(answer.headers["x-request-id"])
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    let files = try [("here", here), ("there", there)].map { name, relay in
      let file = "\(alpha.folder)/\(name).log"
      try relay.log().write(toFile: file, atomically: true, encoding: .utf8)
      return file
    }
    for id in ids {
      let told = try await alpha.run(["explain", id] + files)
      #expect(told.exit == .code(0), "\(told.errors)")
      #expect(told.output.contains("here.log  request not served"), "\(told.output)")
      #expect(told.output.contains("there.log  request not served"), "\(told.output)")
      #expect(told.output.contains("reason: peer beta: it answered 503"), "\(told.output)")
      #expect(told.output.contains("unavailable (503)"), "\(told.output)")
      #expect(!told.output.contains(bob.number) && !told.output.contains(ann.number))
    }
    let rows = try await alpha.run(["explain", ids[0], "--json"] + files).output.split(separator: "\n")
    #expect(rows.count >= 2 && rows.allSatisfy { $0.contains(#""request":"\#(ids[0])""#) }, "\(rows)")
    let nothing = try await alpha.run(["explain", "aaaaaaaaaaaac"] + files)
    #expect(nothing.exit == .code(1) && nothing.errors.contains("Nothing in "), "\(nothing.errors)")
    #expect(try await alpha.run(["explain", "nonsense"] + files).exit == .code(64))
    #expect(try await alpha.run(["explain", ids[0], "/nowhere"]).errors.contains("/nowhere cannot be read"))
  }

  private func toBeta(_ time: Int) -> String {
    #"{"messages":[{"type":1,"destinationDeviceId":1,"destinationRegistrationId":111,"body":"aGVsbG8="}],"#
      + #""timestamp":\#(time),"relay":"beta"}"#
  }
}

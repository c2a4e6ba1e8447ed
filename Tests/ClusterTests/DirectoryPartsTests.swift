// The directory in parts that processes of their own hold, and a process for clients that asks them.

import ChildProcesses
import Foundation
import RelayClient
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes), .serialized) struct DirectoryPartsTests {
  /// A registration shows within a second; the bounds leave room for a machine that runs everything at once.
  private static let limit = Duration.seconds(60)

  @Test func `look-ups over four parts are answered byte for byte as by one process with the whole directory`()
    async throws
  {
    try await PartsSite.with([1, 2, 3, 4], of: 4) { site in
      let whole = try await site.startWhole()
      let caller = try await site.clients.register()
      var numbers: [String] = []
      for _ in 0..<24 { numbers.append(try await site.clients.register().number) }
      numbers += (0..<24).map { _ in TestDevice.freshNumber() }
      let listed = try await site.listAtPeer(60)
      var random = SeededGenerator(seed: 1)
      let tokens = (try numbers.map { try PartsSite.token(of: $0) } + listed).shuffled(using: &random)
      let asked = tokens + tokens.prefix(20)
      for process in [site.clients, whole] {
        try await eventually("all of them are known", within: Self.limit, every: .milliseconds(100)) {
          try await process.contacts(asked, as: caller).list("contacts").count == 24 + 60
        }
      }
      for count in [0, 1, 7, 50, asked.count] {
        let some = Array(asked.shuffled(using: &random).prefix(count))
        let (ours, theirs) = (
          try await site.clients.contacts(some, as: caller), try await whole.contacts(some, as: caller)
        )
        #expect(ours.status == 200 && ours.text == theirs.text, "\(ours.status) for \(count)")
      }
      for token in tokens.prefix(30) {
        let path = "/v1/directory/" + token.base64.replacing("/", with: "%2F").replacing("+", with: "%2B")
        let (ours, theirs) = (
          try await site.clients.send("GET", path, as: caller), try await whole.send("GET", path, as: caller)
        )
        #expect(ours.status == theirs.status && ours.text == theirs.text)
      }
      try await Self.expectChanges(site, whole, caller, tokens)
      try await Self.expectOblivious(site, whole, caller, tokens)
      try await site.expectMetrics(entries: 24 + 60 + 1)
      #expect(await whole.terminate() == .code(0))
    }
  }

  /// A place is good at both, and what has changed since is told alike.
  private static func expectChanges(
    _ site: PartsSite, _ whole: RelayProcess, _ caller: TestDevice, _ tokens: [ContactToken]
  ) async throws {
    let first = try await site.clients.changes(tokens, as: caller)
    #expect(first.status == 200 && first.object["complete"] as? Bool == true)
    let cursor = try #require(first.object["cursor"] as? String)
    let late = try await site.clients.register()
    let token = try PartsSite.token(of: late.number)
    for process in [site.clients, whole] {
      try await eventually("the new contact is told as a change", within: limit) {
        let answer = try await process.changes(tokens + [token], since: cursor, as: caller)
        return answer.object["complete"] as? Bool == false
          && answer.list("contacts").contains { $0["token"] as? String == token.base64 }
      }
    }
    let gone = try await site.clients.send("DELETE", "/v1/accounts/wsc", as: late)
    #expect(gone.status == 200)
    try await eventually("it is told that it went", within: limit) {
      let answer = try await site.clients.changes(tokens + [token], since: cursor, as: caller)
      return answer.object["removed"] as? [String] == [token.base64]
    }
  }

  private static func expectOblivious(
    _ site: PartsSite, _ whole: RelayProcess, _ caller: TestDevice, _ tokens: [ContactToken]
  ) async throws {
    let texts = tokens.map(\.base64)
    var known: [[String]] = []
    for process in [site.clients, whole] {
      let number = try #require(PhoneNumber(caller.number))
      let client = try RelayClient(
        url: process.url, credentials: Credentials(Correspondent(number), password: caller.password))
      var contacts = ObliviousContacts()
      known.append(
        try await eventually("every contact has its output", within: .seconds(120), every: .milliseconds(100)) {
          do throws(RelayClientError) {
            let found = try await client.lookUpObliviously(texts, contacts: &contacts).registered
            return found.count == 24 + 60 ? found : nil
          } catch {
            guard error.status == 503 else { throw error }
            return nil
          }
        })
    }
    #expect(known[0] == known[1])
  }

  @Test func `a part that was killed is refused, its twin takes over, and it catches up when it is back`() async throws
  {
    // The second part has two processes, of which one runs at first.
    let authority = try TestAuthority()
    try await PartsSite.with([1, 2, 3, 4, 2], of: 4, running: 4, trusting: authority) { site in
      // A caller that could speak HTTP/2 is answered too.
      let stranger = try await RawSocket.connect(
        to: site.port(0), trusting: authority, protocols: ["h2", "http/1.1"])
      try await stranger.send(Array("GET /v1/directory-part HTTP/1.1\r\nHost: part\r\n\r\n".utf8))
      #expect(try await stranger.answer().status == 401)
      await stranger.close()
      let caller = try await site.clients.register()
      let early = try await site.registered(inPart: 2, count: 3)
      let others = try await site.registered(inPart: 3, count: 2)
      try await eventually("all are found", within: Self.limit) {
        try await site.clients.contacts(early + others, as: caller).list("contacts").count == 5
      }
      try await eventually("the part has its file") { site.hasSnapshot(ofPart: 2) }
      await site.kill(1)
      let refused = try await site.clients.contacts(early + others, as: caller)
      #expect(refused.status == 503 && refused.headers["retry-after"] == "1", "\(refused.status)")
      let answered = try await site.clients.contacts(others, as: caller)
      #expect(answered.status == 200 && answered.list("contacts").count == 2)
      #expect(try await site.clients.changes(others, as: caller).status == 503)
      // The rest of the API needs no part.
      #expect(try await site.clients.send("GET", "/v2/keys", as: caller).status == 200)
      #expect(await site.clients.readyz()?.status == 200)
      try await site.expectDoctor(part: 2, "fail")

      try await PrometheusServer.with(watching: [site.clients]) { prometheus in
        try await prometheus.untilJudged()
        try await prometheus.expect("RelayDirectoryPartMissing")
        try await site.start(4)
        try await prometheus.expectQuiet("RelayDirectoryPartMissing")
      }
      try await eventually("the twin is asked", within: Self.limit) {
        let answer = try await site.clients.contacts(early + others, as: caller)
        guard answer.status == 200 else { return answer.status == 503 ? false : nil }
        return answer.list("contacts").count == 5
      }
      try await site.expectDoctor(part: 2, "warn")
      let late = try await site.registered(inPart: 2, count: 2)
      try await eventually("later ones are found at the twin", within: Self.limit) {
        try await site.clients.contacts(late, as: caller).list("contacts").count == 2
      }
      try await site.start(1)
      let back = try site.process(1)
      #expect(back.log().contains("from=file"), "\(back.log().suffix(2000))")
      try await site.expectDoctor(part: 2, "ok")
      await site.kill(4)
      try await eventually("what came while it was away is found at the part", within: Self.limit) {
        let answer = try await site.clients.contacts(early + late + others, as: caller)
        return answer.status == 200 && answer.list("contacts").count == 7
      }
    }
  }

  @Test func `no look-up fails while the processes of a part restart one after the other`() async throws {
    try await PartsSite.with([1, 2, 1, 2], of: 2) { site in
      let caller = try await site.clients.register()
      let known = try await site.registered(inPart: 1, count: 2) + site.registered(inPart: 2, count: 2)
      // Look-ups ask the two processes of a part in turn.
      try await eventually("all are found at each process", within: Self.limit) {
        for _ in 0..<4 where try await site.clients.contacts(known, as: caller).list("contacts").count != 4 {
          return false
        }
        return true
      }
      let isOver = Mutex(false)
      async let asking = {
        var (count, wrong) = (0, [Int]())
        while !isOver.withLock(\.self) {
          let answer = try await site.clients.contacts(known, as: caller)
          count += 1
          if answer.status != 200 || answer.list("contacts").count != 4 { wrong.append(answer.status) }
        }
        return (count, wrong)
      }()
      for index in [0, 1, 2, 3] {
        #expect(await (try site.process(index)).terminate() == .code(0))
        try await site.start(index)
        // Its twin is the next to go.
        try await eventually("all processes answer", within: Self.limit) {
          let metrics = try await site.clients.ask("/metrics").text
          return ["1/2", "2/2"].allSatisfy {
            PartsSite.value(#"relay_directory_part_processes{part="\#($0)"}"#, in: metrics) == 2
          }
        }
      }
      // A request that is cancelled has no answer to look at.
      isOver.withLock { $0 = true }
      let (count, wrong) = try await asking
      #expect(count > 0 && wrong.isEmpty, "\(wrong) of \(count)")
    }
  }

  @Test func `parts are asked over TLS, and only by processes of the same store`() async throws {
    try await Cluster.with { cluster in
      let (chain, key) = (cluster.site.folder + "/part.pem", cluster.site.folder + "/part.key")
      let authority = try TestAuthority("parts")
      try authority.leaf(relay: nil).write(chain: chain, key: key)
      let root = cluster.site.folder + "/ca.pem"
      try authority.pem.write(toFile: root, atomically: true, encoding: .utf8)
      let port = try Loopback.freePorts(1)[0]
      let part = try await cluster.site.serve([
        "RELAY_ROLES": "directory", "RELAY_DIRECTORY_PARTITION": "1/1", "RELAY_DIRECTORY_PORT": "\(port)",
        "RELAY_DIRECTORY_TLS_CERTIFICATE": chain, "RELAY_DIRECTORY_TLS_KEY": key,
      ])
      let asks = [
        "RELAY_ROLES": "clients", "RELAY_DIRECTORY_PARTS": "1/1=https://127.0.0.1:\(port)",
        "RELAY_DIRECTORY_TLS_CA": root,
      ]
      let clients = try await cluster.site.serve(asks)
      let caller = try await clients.register()
      let number = try await clients.register().number
      let token = try PartsSite.token(of: number)
      try await eventually("it is found", within: Self.limit) {
        try await clients.contacts([token], as: caller).list("contacts").count == 1
      }
      // Who does not know the CA asks nothing; whoever has another store is a stranger.
      let careful = try await cluster.site.serve(asks.merging(["RELAY_DIRECTORY_TLS_CA": "/etc/hostname"]) { $1 })
      #expect(try await careful.contacts([token], as: caller).status == 503)
      try await Cluster.with("other") { other in
        let stranger = try await other.site.serve(asks)
        let foreign = try await stranger.register()
        #expect(try await stranger.contacts([token], as: foreign).status == 503)
        try await eventually("the log says so") { stranger.log().contains("takes this process for a stranger") }
        #expect(await stranger.terminate() == .code(0))
      }
      for process in [careful, clients, part] { #expect(await process.terminate() == .code(0)) }
    }
  }
}

extension RelayProcess {
  /// Looks up in clear.
  fileprivate func contacts(_ tokens: [ContactToken], as caller: TestDevice) async throws -> Answer {
    try await send("PUT", "/v1/directory/tokens", json: #"{"contacts":[\#(Self.list(tokens))]}"#, as: caller)
  }

  fileprivate func changes(
    _ tokens: [ContactToken], since cursor: String? = nil, as caller: TestDevice
  ) async throws -> Answer {
    let place = cursor.map { #","cursor":"\#($0)""# } ?? ""
    return try await send(
      "PUT", "/v1/directory/changes", json: #"{"contacts":[\#(Self.list(tokens))]\#(place)}"#, as: caller)
  }

  private static func list(_ tokens: [ContactToken]) -> String {
    tokens.map { "\"\($0.base64)\"" }.joined(separator: ",")
  }
}

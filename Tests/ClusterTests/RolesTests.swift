import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The roles of a relay on processes of their own, over real stores, with a peer and a provider of pushes.
@Suite(.tags(.processes)) struct RolesTests {
  @Test func `a process of one role opens that role's ports and no other, and is ready`() async throws {
    try await RoleSite.with { site in
      for role in RoleSite.roles {
        let process = try await site.start(role)
        #expect(try process.sockets().listening == site.ports(of: role), "\(role)")
        try await site.expectTold(by: process, role)
        if role == "push" {
          // Nobody connects to anything for a role that is off.
          #expect(try process.sockets().outgoing.isSubset(of: site.stores.union(site.providers)))
        }
        #expect(await process.terminate() == .code(0), "\(role): \(process.log().suffix(2000))")
      }
    }
  }

  @Test func `roles apart are one relay, and each process has connections of its own role alone`() async throws {
    try await RoleSite.with { site in
      try await site.withPeer { beta in
        try await site.withAllRoles { relay in
          try await Self.converse(relay, beta, site)
          try await Self.expectSockets(relay, beta, site)
          try await Self.expectTop(relay, site)
          try await Self.expectOneAddress(relay, beta, site)
          try await Self.expectConsole(relay)
        }
      }
    }
  }

  /// Messages here and across, live and woken by push, and look-ups.
  private static func converse(_ relay: RoleSite.Apart, _ beta: RelayProcess, _ site: RoleSite) async throws {
    let entrance = try RelayClient(url: relay.clients.url)
    let (anns, carls, bobs) = (try freshNumber(), try freshNumber(), try freshNumber())
    let (ann, carl) = (try await entrance.register(anns), try await entrance.register(carls))
    let bob = try await RelayClient(url: beta.url).register(bobs)

    // Carl is not connected: the process of clients stores that he is to be woken, that of pushes wakes him.
    try await relay.registerForPush(carl, token: "carl")
    try await ann.client.send([OutgoingMessage(body: [1])], to: carls)
    try await eventually("a message from here wakes", within: .seconds(120)) { site.pushes(to: "carl") == 1 }

    // A message of the peer comes by the process of peers, and finds the connection at the process of clients.
    let live = try await ann.connect()
    try await eventually("the peer reaches us", within: .seconds(60)) {
      try await status { try await bob.client.send([OutgoingMessage(body: [2])], to: anns, at: "alpha") } == 200
    }
    for try await delivery in live.deliveries {
      #expect(try delivery.message.relay == "beta")
      try await delivery.acknowledge()
      break
    }
    await live.close()

    // A message of the peer for nobody connected is woken for, too.
    try await relay.registerForPush(ann, token: "ann")
    try await bob.client.send([OutgoingMessage(body: [3])], to: anns, at: "alpha")
    try await eventually("a message of a peer wakes", within: .seconds(120)) { site.pushes(to: "ann") >= 1 }

    try await expectLookUps(relay, ann, finds: carls, and: bobs)
    // Named or not, what is for the peer goes there from the process of clients.
    try await ann.client.send([OutgoingMessage(body: [4])], to: bobs, at: "beta", timestamp: 4)
    try await ann.client.send([OutgoingMessage(body: [5])], to: bobs, timestamp: 5)
    #expect(Set(try await bob.client.fetchMessages().messages.map(\.timestamp)).isSuperset(of: [4, 5]))
  }

  private static func expectLookUps(
    _ relay: RoleSite.Apart, _ ann: RegisteredDevice, finds carls: PhoneNumber, and bobs: PhoneNumber
  ) async throws {
    let directory = try RelayClient(url: relay.directory.url, credentials: ann.client.credentials)
    let (here, there) = (ContactTokens.token(for: carls), ContactTokens.token(for: bobs))
    try await eventually("both contacts are found", within: .seconds(60)) {
      let found = try await directory.lookUpInClear([here, there])
      return Set(found.map(\.token)) == [here, there] && found.first { $0.token == there }?.relay == "beta"
    }
    // A request at the wrong process is to be repeated. It does not mean that something is not there.
    #expect(try await status { try await ann.client.lookUpInClear([here]) } == 503)
    #expect(try await status { try await ann.client.lookUp(token: here) } == 503)
    #expect(try await status { try await directory.preKeyCount() } == 503)
    #expect(try await status { try await directory.fetchMessages() } == 503)
  }

  private static func expectSockets(_ relay: RoleSite.Apart, _ beta: RelayProcess, _ site: RoleSite) async throws {
    for (role, process) in relay.all {
      let sockets = try process.sockets()
      #expect(sockets.listening == site.ports(of: role), "\(role)")
      let allowed = site.stores.union(role == "push" ? site.providers : [site.betaPort])
      #expect(sockets.outgoing.isSubset(of: allowed), "\(role): \(sockets.outgoing.subtracting(allowed))")
      try await site.expectTold(by: process, role)
    }
    #expect(try relay.clients.sockets().outgoing.contains(site.betaPort))
    try await eventually("contacts are copied by the process of peers") {
      try relay.peers.sockets().outgoing.contains(site.betaPort)
    }
  }

  private static func expectTop(_ relay: RoleSite.Apart, _ site: RoleSite) async throws {
    let urls = relay.all.flatMap { ["--url", $0.process.operatorURL] }
    let result = try await site.alpha.run(["top", "--once", "--json", "--every", "1"] + urls)
    let report: Top = try result.json()
    #expect(report.processes.map(\.roles) == RoleSite.roles.map { [$0] })
    #expect(report.processes.allSatisfy { $0.rolesElsewhere.count == 3 })
  }

  /// Behind HAProxy, clients know one address for all roles.
  private static func expectOneAddress(
    _ relay: RoleSite.Apart, _ beta: RelayProcess, _ site: RoleSite
  ) async throws {
    let (clients, directory) = (try site.kept(by: "clients"), try site.kept(by: "directory"))
    try await HAProxyServer.with(before: [clients], directory: [directory]) { balancer in
      let entrance = try RelayClient(url: balancer.url)
      let (anns, bobs) = (try freshNumber(), try freshNumber())
      let ann = try await entrance.register(anns)
      let bob = try await RelayClient(url: beta.url).register(bobs)
      try await eventually("both are found", within: .seconds(60)) {
        let tokens = [ContactTokens.token(for: anns), ContactTokens.token(for: bobs)]
        return try await ann.client.lookUpInClear(tokens).count == 2
      }
      try await ann.client.send([OutgoingMessage(body: [6])], to: bobs, timestamp: 6)
      #expect(try await bob.client.fetchMessages().messages.map(\.timestamp) == [6])
    }
  }

  private static func expectConsole(_ relay: RoleSite.Apart) async throws {
    let visitor = try await ConsoleVisitor(relay.push, token: RoleSite.readToken)
    #expect(try await visitor.get("/console").text.contains("push only"))
  }

  private struct Top: Decodable {
    struct Process: Decodable {
      let roles: [String]
      let rolesElsewhere: [String]
    }
    let processes: [Process]
  }

  @Test func `what the process of clients holds for a peer that is away is handed over by the process of peers`()
    async throws
  {
    try await RoleSite.with { site in
      try await site.withPeer { beta in
        try await site.withAllRoles { relay in
          try await site.alpha.relay("peer", "set", "beta", "--hold", "on")
          let (anns, bobs) = (try Self.freshNumber(), try Self.freshNumber())
          let ann = try await RelayClient(url: relay.clients.url).register(anns)
          let bob = try await RelayClient(url: beta.url).register(bobs)
          // The peer confirms the devices.
          try await eventually("the peer is reached", within: .seconds(60)) {
            try await Self.status { try await ann.client.send([OutgoingMessage(body: [1])], to: bobs, at: "beta") }
              == 200
          }
          await beta.kill9()
          try await eventually("a message is held", within: .seconds(120)) {
            try await Self.status {
              try await ann.client.send([OutgoingMessage(body: [2])], to: bobs, at: "beta", timestamp: 2)
            } == 200
          }
          let again = try await site.startPeer()
          do {
            let client = try RelayClient(url: again.url, credentials: bob.client.credentials)
            try await eventually("it has arrived", within: .seconds(120)) {
              try await client.fetchMessages().messages.contains { $0.timestamp == 2 }
            }
          } catch {
            await again.kill9()
            throw error
          }
          #expect(await again.terminate() == .code(0))
        }
      }
    }
  }

  @Test func `a role that there is not, or none, is refused with the roles that there are`() async throws {
    try await RelayOperator.with { site in
      let expected = "clients, peers, push, directory, comma-separated"
      for (text, hint) in [("client", "(did you mean clients?)"), ("", ""), ("clients,,push", "")] {
        let result = try await site.run(["serve", "--roles", text])
        #expect(result.exit == .code(64))
        #expect(result.errors.contains(expected) && (hint.isEmpty || result.errors.contains(hint)), "\(result.errors)")
      }
      let result = try await site.run(["check"], overrides: ["RELAY_ROLES": "clients,pears"])
      #expect(result.exit == .code(78))
      #expect(result.errors.contains("RELAY_ROLES: expects `all`, or some of \(expected)"), "\(result.errors)")
      let shown = try await site.relay("check", overrides: ["RELAY_ROLES": "clients, directory"])
      #expect(shown.split(separator: "\n").contains { $0.hasPrefix("roles ") && $0.contains("clients, directory") })
    }
  }

  @Test func `the doctor passes over the ports and the pushes of other roles`() async throws {
    struct Row: Decodable {
      let group: String
      let check: String
      let outcome: String
    }
    try await RelayOperator.with { site in
      for (role, skipped) in [
        ("push", ["ports client", "ports federation"]), ("directory", ["ports federation", "push service"]),
      ] {
        let overrides = ["RELAY_ROLES": role, "RELAY_CLIENT_PORT": "0", "RELAY_OPERATOR_PORT": "0"]
        let rows: [Row] = try await site.run(["doctor", "--json"], overrides: overrides).json()
        let found = rows.filter { $0.outcome == "skip" }.map { "\($0.group) \($0.check)" }
        #expect(Set(found).isSuperset(of: skipped), "\(role): \(found)")
      }
    }
  }

  // MARK: - Words

  private static func freshNumber() throws -> PhoneNumber { try #require(PhoneNumber(TestDevice.freshNumber())) }

  /// The status of a call's answer: 200 when it succeeds.
  private static func status(_ call: () async throws -> some Any) async throws -> Int {
    do {
      _ = try await call()
      return 200
    } catch let error as RelayClientError {
      guard let status = error.status else { throw error }
      return status
    }
  }
}

/// An operator whose processes have a role each, all by one configuration, and what they stand on.
struct RoleSite: Sendable {
  static let roles = ["clients", "peers", "push", "directory"]
  static let readToken = String(repeating: "r", count: 40)

  let alpha: RelayOperator
  let google: FakeFCM
  private let cluster: Cluster
  private let beta: RelayOperator
  private let gatewayPort: Int
  private let notificationsPort: Int
  /// The client's port and the operator's, of each role.
  private let own: [String: RelayPorts]

  /// The ports of the operator's stores.
  var stores: Set<Int> { [cluster.postgres.port, cluster.redis.port] }
  /// The ports of the provider of pushes.
  var providers: Set<Int> { [google.service.port, google.exchange.port] }
  var betaPort: Int { beta.federationPort }

  static func with(_ body: @Sendable (RoleSite) async throws -> Void) async throws {
    let files = try PushFiles()
    let google = try await FakeFCM(files, key: try files.makeServiceAccount())
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await with(files, google, body))
    } catch {
      outcome = .failure(error)
    }
    try await google.close()
    try outcome.get()
  }

  private static func with(
    _ files: PushFiles, _ google: FakeFCM, _ body: @Sendable (RoleSite) async throws -> Void
  ) async throws {
    let ports = try Loopback.freePorts(2)
    let own = Dictionary(uniqueKeysWithValues: zip(roles, try RelayPorts.free(roles.count)))
    let push = [
      "RELAY_PUSH_FCM_SERVICE_ACCOUNT_FILE": files.serviceAccount, "RELAY_PUSH_ENDPOINTS_FCM": google.url,
      "RELAY_PUSH_ENDPOINTS_FCM_OAUTH": google.tokenURL, "RELAY_PUSH_ENDPOINTS_TRUST": files.trust,
      "RELAY_PUSH_GATEWAY_PORT": "\(ports[0])",
      "RELAY_PUSH_GATEWAY_APPS":
        #"{"com.example.app":{"type":"gcm","api_version":"v1","project_id":"\#(PushFiles.project)","#
        + #""service_account_file":"\#(files.serviceAccount)"}}"#,
      "RELAY_DEVICE_NOTIFICATIONS_PORT": "\(ports[1])", "RELAY_DEVICE_NOTIFICATIONS_PLAIN": "true",
      "RELAY_FEDERATION_DIRECTORY_INTERVAL": "0.2", "RELAY_OPERATOR_READ_TOKENS": "viewer:\(readToken)",
    ]
    let settings = Cluster.unlimited.merging(push) { $1 }
    try await Cluster.with("alpha", settings: settings) { cluster in
      try await RelayOperator.with("beta", settings: Cluster.unlimited) { beta in
        try await cluster.site.relay("ca", "init")
        try await cluster.site.relay("ca", "issue")
        try await body(
          RoleSite(
            alpha: cluster.site, google: google, cluster: cluster, beta: beta, gatewayPort: ports[0],
            notificationsPort: ports[1], own: own))
      }
    }
  }

  /// The ports at which a process of `role` is to listen.
  func ports(of role: String) -> Set<Int> {
    guard let own = own[role] else { return [] }
    let further: Set<Int> =
      switch role {
      case "peers": [alpha.federationPort]
      case "push": [gatewayPort, notificationsPort]
      default: [own.client]
      }
    return further.union([own.operations])
  }

  /// The ports of the process of `role`.
  func kept(by role: String) throws -> RelayPorts { try #require(own[role]) }

  func start(_ role: String) async throws -> RelayProcess {
    // The option goes before the key.
    let roles = ["RELAY_ROLES": role, "RELAY_FEDERATION_PORT": "\(alpha.federationPort)"]
    return try await alpha.serve(roles.merging(own[role]?.settings ?? [:]) { $1 })
  }

  /// The metrics say which roles it has.
  func expectTold(by process: RelayProcess, _ role: String) async throws {
    let lines = try await process.ask("/metrics").text.split(separator: "\n").filter { $0.hasPrefix("relay_role{") }
    #expect(lines.count == Self.roles.count)
    for other in Self.roles {
      let line = lines.first { $0.hasPrefix(#"relay_role{role="\#(other)"} "#) }
      #expect(line?.split(separator: " ").last.flatMap { Double($0) } == (other == role ? 1 : 0), "\(lines)")
    }
    #expect(await process.readyz()?.status == 200)
  }

  /// How many pushes the device with `token` was sent.
  func pushes(to token: String) -> Int {
    google.requests.count { ($0.json["message"] as? [String: Any])?["token"] as? String == token }
  }

  // MARK: The processes

  /// One process for each role.
  struct Apart: Sendable {
    let clients: RelayProcess
    let peers: RelayProcess
    let push: RelayProcess
    let directory: RelayProcess

    /// In the order of `RoleSite.roles`.
    var all: [(role: String, process: RelayProcess)] {
      Array(zip(RoleSite.roles, [clients, peers, push, directory]))
    }

    func registerForPush(_ device: RegisteredDevice, token: String) async throws {
      let credentials = try #require(device.client.credentials)
      let account = TestDevice(
        number: credentials.device.number.e164, password: credentials.password,
        registrationID: device.attributes.registrationID)
      let answer = try await clients.send(
        "PUT", "/v1/accounts/gcm/", json: #"{"gcmRegistrationId":"\#(token)","webSocketChannel":true}"#, as: account)
      #expect(answer.status == 204 || answer.status == 200, "\(answer.status)")
    }
  }

  /// Runs `body` with a process for each role, peered with the other operator.
  func withAllRoles(_ body: (Apart) async throws -> Void) async throws {
    var started: [RelayProcess] = []
    do {
      // The process of pushes first, so that the others know at once that there is a provider.
      let push = try await start("push")
      started.append(push)
      try await eventually("the provider is announced") {
        let count = try await Loopback.blocking { [cluster] in
          try cluster.postgres.sql("SELECT count(*) FROM wake_providers", in: cluster.database)
        }
        return count.contains("1")
      }
      for role in ["clients", "peers", "directory"] { started.append(try await start(role)) }
      let invited = try await alpha.relay("peer", "invite").split(separator: "\n")
      try await beta.relay("peer", "accept", String(try #require(invited.last)))
      try await body(Apart(clients: started[1], peers: started[2], push: push, directory: started[3]))
      for process in started { #expect(await process.terminate() == .code(0), "\(process.log().suffix(2000))") }
    } catch {
      for process in started {
        print("--- the end of a relay's log\n\(process.log().suffix(1500))")
        await process.kill9()
      }
      throw error
    }
  }

  func startPeer() async throws -> RelayProcess {
    try await beta.serve(["RELAY_FEDERATION_PORT": "\(beta.federationPort)"])
  }

  /// Runs `body` with the other operator's relay.
  func withPeer(_ body: (RelayProcess) async throws -> Void) async throws {
    try await beta.relay("ca", "init")
    try await beta.relay("ca", "issue")
    let process = try await startPeer()
    do {
      try await body(process)
    } catch {
      await process.kill9()
      throw error
    }
    if process.child.exit == nil { #expect(await process.terminate() == .code(0)) }
  }
}

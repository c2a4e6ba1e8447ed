import ChildProcesses
import Glibc
import NIOCore
import RelayClient
import TestSupport
import TestTags
import Testing

/// A process that stops lets everybody go in peace.
@Suite(.tags(.time)) struct DrainTests {
  private struct Ending: Sendable {
    let end: ConnectionEnd?
    let at: ContinuousClock.Instant
  }

  /// Runs `body` with a process that drains over `window` seconds, and devices that are connected to it.
  private static func with(
    window: Int, devices count: Int,
    _ body: @Sendable (RelayOperator, RelayProcess, LiveFleet, Ledger<Int>, Task<[Ending], Never>) async throws -> Void
  ) async throws {
    var settings = Cluster.unlimited
    settings["RELAY_DRAIN_SECONDS"] = "\(window)"
    try await RelayOperator.with(settings: settings) { site in
      let relay = try await site.serve()
      let fleet = try await LiveFleet(count, registeredAt: relay)
      let entrance = try RelayClient.entrance(relay.url)
      let ended = Ledger<Int>()
      let endings = Task { await Self.endings(of: fleet, by: entrance, ended) }
      defer { endings.cancel() }
      try await eventually("all are connected", within: .seconds(60)) { fleet.devices.allSatisfy(\.isConnected) }
      try await body(site, relay, fleet, ended, endings)
      await relay.kill9()
    }
  }

  private static func endings(of fleet: LiveFleet, by entrance: RelayClient, _ ended: Ledger<Int>) async -> [Ending] {
    await withTaskGroup(of: Ending.self) { group in
      for (index, device) in fleet.devices.enumerated() {
        group.addTask {
          let end = await device.end(of: entrance)
          ended.add(index)
          return Ending(end: end, at: .now)
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
  }

  @Test
  func `SIGTERM: WebSockets are closed with 1012 over the window, what is under way is finished, and it ends with 0`()
    async throws
  {
    try await Self.with(window: 10, devices: 12) { _, relay, fleet, ended, endings in
      let sender = fleet.devices[0].asTestDevice
      let slow = try HalfRequest(
        put: "/v1/messages/\(fleet.devices[1].number.e164)", json: bundle(message(), timestamp: 1), as: sender,
        port: relay.clientPort)
      defer { slow.close() }
      try await eventually("the relay has read the half") { try HalfRequest.allRead(by: relay.clientPort, [slow]) }
      let begun = ContinuousClock.now
      relay.child.send(SIGTERM)
      try await eventually("it is not ready", within: .seconds(30)) { await relay.readyz()?.status == 503 }
      try await eventually("the first is told to go", within: .seconds(30)) { ended.count > 0 }
      #expect(ended.count < fleet.devices.count, "not all at once")

      let path = "/v1/messages/\(fleet.devices[1].number.e164)"
      let answer = try await relay.send("PUT", path, json: bundle(message(), timestamp: 2), as: sender)
      #expect(answer.status == 200 && answer.headers["connection"]?.lowercased() == "close", "\(answer.headers)")
      await Self.expectRefused(fleet.devices[0], at: relay)

      let all = await endings.value
      #expect(all.allSatisfy { $0.end?.code == 1012 }, "\(all.map(\.end))")
      let times = all.map(\.at).sorted()
      let spread = (times.last ?? begun) - (times.first ?? begun)
      print("drain: 12 connections closed over \(spread), the last \((times.last ?? begun) - begun) after SIGTERM")
      #expect(spread > .seconds(3), "evenly over what is left of ten seconds")
      #expect(relay.child.exit == nil, "what has begun is not finished yet")
      #expect(try await slow.finish() == 200)
      #expect(await relay.exit(within: .seconds(60)) == .code(0), "\(relay.log().suffix(1000))")
    }
  }

  @Test func `a request that is never finished is cut off, and the process still ends with 0`() async throws {
    try await Self.with(window: 2, devices: 2) { _, relay, fleet, _, _ in
      let stuck = try HalfRequest(
        put: "/v1/messages/\(fleet.devices[1].number.e164)", json: bundle(message(), timestamp: 1),
        as: fleet.devices[0].asTestDevice, port: relay.clientPort)
      defer { stuck.close() }
      try await eventually("the relay has read the half") { try HalfRequest.allRead(by: relay.clientPort, [stuck]) }
      #expect(await relay.terminate(within: .seconds(90)) == .code(0), "\(relay.log().suffix(1000))")
    }
  }

  private static func expectRefused(_ device: LiveDevice, at relay: RelayProcess) async {
    await #expect(throws: RelayClientError.self, "a draining process takes nobody in") {
      do {
        try await device.connect(by: try RelayClient.entrance(relay.url))
      } catch let error as RelayClientError {
        #expect(error.status == 503 && error.retryAfter != nil, "\(error)")
        throw error
      }
    }
  }

  @Test func `a second SIGTERM ends it on the spot`() async throws {
    try await Self.with(window: 3600, devices: 1) { _, relay, fleet, ended, _ in
      relay.child.send(SIGTERM)
      try await eventually("it drains", within: .seconds(30)) { await relay.readyz()?.status == 503 }
      relay.child.send(SIGTERM)
      #expect(await relay.exit(within: .seconds(60)) == .code(128 + SIGTERM), "\(relay.log().suffix(1000))")
      #expect(ended.count <= fleet.devices.count)
    }
  }

  @Test func `relay drain stops one process over its own time, shows how it goes, and says when nothing is there`()
    async throws
  {
    try await Self.with(window: 3600, devices: 3) { site, relay, _, _, endings in
      let command = ["drain", "--over", "4", "--operator", relay.operatorURL]
      let result = try await site.run(command, within: .seconds(120))
      #expect(result.exit == .code(0), "\(result.errors)")
      #expect(result.output.contains("Draining over 4 s: 3 connections."), "\(result.output)")
      #expect(result.output.contains("It has stopped."), "\(result.output)")
      #expect(await relay.exit(within: .seconds(30)) == .code(0), "\(relay.log().suffix(1000))")
      #expect(await endings.value.allSatisfy { $0.end?.code == 1012 })

      let again = try await site.run(command)
      #expect(again.exit == .code(1))
      #expect(again.errors.contains("Nothing answers at \(relay.operatorURL)"), "\(again.errors)")
    }
  }

  @Test func `only this host may drain a process`() async throws {
    let devices = try System.enumerateDevices().compactMap { $0.address?.ipAddress }
    guard let address = devices.first(where: { !$0.hasPrefix("127.") && !$0.contains(":") }) else {
      print("this host has no address but the loopback: not tried")
      return
    }
    try await RelayOperator.with { site in
      let relay = try await site.serve(["RELAY_OPERATOR_HOST": "0.0.0.0", "RELAY_ALLOW_INSECURE": "operator-listener"])
      let url = "http://\(address):\(relay.operatorPort)"
      let result = try await site.run(["drain", "--over", "0", "--operator", url])
      #expect(result.exit == .code(1))
      #expect(result.errors.contains("403") && result.errors.contains("own host"), "\(result.errors)")
      #expect(await relay.readyz()?.status == 200)
      // By its configuration, as an administrator on the host.
      let here = try await site.run(
        ["drain"],
        overrides: [
          "RELAY_OPERATOR_HOST": "0.0.0.0", "RELAY_ALLOW_INSECURE": "operator-listener",
          "RELAY_OPERATOR_PORT": "\(relay.operatorPort)",
        ])
      #expect(here.exit == .code(0), "\(here.errors)")
      #expect(await relay.exit() == .code(0))
    }
  }
}

extension LiveDevice {
  /// The same device, for requests byte for byte.
  var asTestDevice: TestDevice { TestDevice(number: number.e164, password: credentials.password) }
}

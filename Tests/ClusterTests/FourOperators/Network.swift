import ChildProcesses
import Foundation
import Glibc
import TestSupport

/// Hosts with addresses of their own, and the links between them.
///
/// If the machine allows it, each is a network namespace. The namespaces and their devices go with their last
/// process, however this one ends. Elsewhere all are on the loopback address, and the links cannot be changed.
struct Network: Sendable {
  struct Host: Sendable {
    let index: UInt8
    let place: RelayOperator.Place
  }

  let hosts: [Host]
  /// nil on the loopback address.
  let packets: PacketSwitch?

  /// Runs `body` with `count` hosts.
  static func with<Result>(
    _ count: Int, isolation: isolated (any Actor)? = #isolation, _ body: (Network) async throws -> Result
  ) async throws -> Result {
    guard isAllowed else {
      print("network namespaces are not allowed here: the operators share the loopback address")
      return try await body(
        Network(hosts: (1...count).map { Host(index: UInt8($0), place: .here) }, packets: nil))
    }
    let builder = Builder()
    do {
      let network = try await builder.build(count)
      let result = try await body(network)
      await builder.demolish()
      return result
    } catch {
      await builder.demolish()
      throw error
    }
  }

  /// Whether this process may make namespaces and devices.
  static let isAllowed: Bool =
    geteuid() == 0 && access("/dev/net/tun", R_OK | W_OK) == 0
    && ["/usr/bin/unshare", "/usr/bin/nsenter", "/usr/sbin/ip"].allSatisfy(FileManager.default.isExecutableFile)
    && (try? Shell.run(["unshare", "--net", "true"])) != nil
}

/// Commands of the system, run to their end.
enum Shell {
  static func run(_ command: [String]) throws {
    let errors = FileManager.default.temporaryDirectory.appending(path: "shell-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: errors) }  // A leftover there hurts nobody.
    let exit = try ChildProcess.run(
      .init(
        command: command, environment: ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"], standardOutput: "/dev/null",
        standardError: errors))
    guard exit == .code(0) else {
      // Without its words there is the command.
      let words = (try? String(contentsOfFile: errors, encoding: .utf8)) ?? ""
      throw TestFailure("\(command.joined(separator: " ")): \(exit): \(words)")
    }
  }
}

/// Makes the namespaces: the test's own host is the last on the switch.
private final class Builder {
  /// A /24 of its own, so that two runs at once have different routes here.
  private let prefix = "10.\(UInt8.random(in: 100...250)).\(UInt8.random(in: 0...250))"
  private static let own: UInt8 = 254
  private var keepers: [ChildProcess] = []
  private var packets: PacketSwitch?

  func build(_ count: Int) async throws -> Network {
    var devices: [UInt8: Int32] = [:]
    do {
      devices[Self.own] = try await device(of: Self.own, in: nil)
      var hosts: [Network.Host] = []
      for index in (1...count).map({ UInt8($0) }) {
        let keeper = try await ChildProcess.start(
          .init(
            command: ["unshare", "--net", "sleep", "3600"], environment: ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"],
            standardOutput: "/dev/null", standardError: "/dev/null"))
        keepers.append(keeper)
        try await eventually("the namespace is there", within: .seconds(20)) {
          try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(keeper.pid)/ns/net")
            != FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/ns/net")
        }
        devices[index] = try await device(of: index, in: keeper.pid)
        hosts.append(
          Network.Host(
            index: index,
            place: RelayOperator.Place(
              address: address(of: index), wrapper: ["nsenter", "--net=/proc/\(keeper.pid)/ns/net"])))
      }
      let packets = PacketSwitch(devices)
      self.packets = packets
      return Network(hosts: hosts, packets: packets)
    } catch {
      for device in devices.values { close(device) }
      throw error
    }
  }

  func demolish() async {
    packets?.stop()
    for keeper in keepers { await keeper.stop(SIGKILL) }
  }

  private func address(of host: UInt8) -> String { "\(prefix).\(host)" }

  /// A TUN device with the host's address, here or in the namespace of `pid`. It goes when its descriptor is closed.
  private func device(of host: UInt8, in pid: pid_t?) async throws -> Int32 {
    let name = "rt\(UInt32.random(in: 0...0xFF_FFFF))h\(host)"
    let descriptor = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw TestFailure("/dev/net/tun: errno \(errno)") }
    // struct ifreq: 16 bytes of name, then the flags.
    var request = [UInt8](repeating: 0, count: 40)
    for (index, byte) in name.utf8.prefix(15).enumerated() { request[index] = byte }
    let flags = UInt16(Self.iffTun | Self.iffNoPacketInformation)
    request[16] = UInt8(truncatingIfNeeded: flags)
    request[17] = UInt8(truncatingIfNeeded: flags >> 8)
    guard ioctl(descriptor, Self.setInterface, &request) == 0 else {
      defer { close(descriptor) }
      throw TestFailure("TUNSETIFF: errno \(errno)")
    }
    do {
      let (inside, home) = (pid.map { ["nsenter", "--net=/proc/\($0)/ns/net"] } ?? [], address(of: host))
      try await Loopback.blocking {
        if let pid { try Shell.run(["ip", "link", "set", "dev", name, "netns", "\(pid)"]) }
        try Shell.run(inside + ["ip", "addr", "add", "\(home)/24", "dev", name])
        try Shell.run(inside + ["ip", "link", "set", "dev", name, "up"])
        if pid != nil { try Shell.run(inside + ["ip", "link", "set", "dev", "lo", "up"]) }
      }
    } catch {
      close(descriptor)
      throw error
    }
    return descriptor
  }

  // linux/if_tun.h, linux/if.h.
  private static let setInterface: UInt = 0x4004_54CA
  private static let iffTun: Int32 = 0x0001
  private static let iffNoPacketInformation: Int32 = 0x1000
}

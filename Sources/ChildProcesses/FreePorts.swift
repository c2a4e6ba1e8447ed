import NIOCore
import NIOPosix

/// Ports of the loopback address that nobody listened on just now.
package enum FreePorts {
  /// - Returns: `count` different ones, held until all were found.
  package static func find(_ count: Int) async throws -> [Int] {
    var held: [any Channel] = []
    for _ in 0..<count {
      held.append(
        try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup).bind(host: "127.0.0.1", port: 0).get())
    }
    let ports = held.compactMap { $0.localAddress?.port }
    for channel in held { try await channel.close().get() }
    guard ports.count == count else { throw LaunchFailure("no child can be started: the system named no free port") }
    return ports
  }
}

import NIOCore
import NIOPosix

/// Requests whose answers nobody waits for, each on a connection of its own, until `close`.
struct HeldRequests: Sendable {
  private let connections: [any Channel]

  /// - Parameter workloads: one request of each is sent.
  init(_ workloads: [NotifyWorkload], port: Int) async throws {
    var connections: [any Channel] = []
    do {
      for work in workloads {
        var work = work
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
          .connectTimeout(.seconds(10)).connect(host: "127.0.0.1", port: port).get()
        connections.append(channel)
        try await channel.writeAndFlush(work.nextRequest())
      }
    } catch {
      for connection in connections { connection.close(promise: nil) }
      throw error
    }
    self.connections = connections
  }

  func close() {
    for connection in connections { connection.close(promise: nil) }
  }
}

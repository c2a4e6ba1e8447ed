package import ServiceLifecycle

/// A listener whose WebSockets need no task of their own: it has stopped when they have ended too.
package struct SocketService: Service {
  private let listener: any Service
  private let sockets: SocketWatch

  package init(_ listener: any Service, sockets: SocketWatch) {
    self.listener = listener
    self.sockets = sockets
  }

  package func run() async throws {
    try await listener.run()
    // The listener told them to close; twice what each client has for its answer.
    await sockets.allClosed(within: .seconds(10))
  }
}

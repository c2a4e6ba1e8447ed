import HummingbirdCore
import Logging
import NIOCore

/// Sets up those connections alone that `door` admits: the others are closed as they are accepted, before anything is
/// allocated for them.
struct GuardedChannel<Base: ServerChildChannel>: ServerChildChannel {
  typealias Value = Base.Value
  private struct Refused: Error {}

  private let base: Base
  private let door: HandshakeDoor

  init(_ base: Base, door: HandshakeDoor) {
    self.base = base
    self.door = door
  }

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
    guard door.admit(channel) else {
      channel.close(promise: nil)
      return channel.eventLoop.makeFailedFuture(Refused())
    }
    return base.setup(channel: channel, logger: logger)
  }

  func handle(value: Base.Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}

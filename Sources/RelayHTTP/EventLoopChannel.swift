package import HummingbirdCore
package import Logging
package import NIOCore

/// Runs everything of a connection on the event loop that reads it.
///
/// Without it each request hops to Swift's shared pool and back, once for the head, once for each part of the body and
/// once for the answer; docs/performance.md has the figure. So nothing behind a listener may block: stores and Redis
/// live on threads of their own.
package struct EventLoopChannel<Inner: ServerChildChannel>: ServerChildChannel {
  private let inner: Inner

  package init(_ inner: Inner) { self.inner = inner }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Inner.Value> {
    inner.setup(channel: channel, logger: logger)
  }

  package func handle(value: Inner.Value, logger: Logger) async {
    // One for each connection: it holds nothing but the loop.
    let executor = EventLoopExecutor(loop: value.channel.eventLoop)
    await withTaskExecutorPreference(executor) { await inner.handle(value: value, logger: logger) }
  }
}

/// Runs tasks on an event loop.
private final class EventLoopExecutor: TaskExecutor {
  private let loop: any EventLoop

  init(loop: any EventLoop) { self.loop = loop }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

package import Hummingbird
import NIOCore
package import RelayCore
import RelayHTTP

/// The context of every request of device notifications.
package struct NotificationContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// The holder of the connection; nil for a socket of the file system.
  package let direct: ClientAddress?

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    direct = source.channel.remoteAddress.flatMap(ClientAddress.init)
  }
}

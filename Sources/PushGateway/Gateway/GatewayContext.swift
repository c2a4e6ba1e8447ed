package import Hummingbird
import NIOCore

/// The context of every request of the gateway.
package struct GatewayContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  let channel: any Channel

  package init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    channel = source.channel
  }
}

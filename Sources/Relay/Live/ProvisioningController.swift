package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Hands what a device has to tell a device to be to where that one waits (reference 1.14).
package struct ProvisioningController: Sendable {
  private let registry: ProvisioningRegistry
  private let limiter: any RateLimiter

  package init(hub: Hub, limiter: any RateLimiter) {
    registry = hub.registry
    self.limiter = limiter
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/provisioning/:address", [(.put, handOver)])
  }

  @Sendable private func handOver(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard let address = ProvisioningAddress(try context.segment("address")) else { throw Problem(.invalidAddress) }
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let bytes = try body.decodeJSON(Self.decode)
    guard bytes.count <= Self.bytesMax else { throw Problem(.bodyTooLarge) }
    try await limiter.charge(.messages, LimitKey(context.caller.address.account))
    guard await registry.handOver(bytes, to: address) else { throw Problem(.notFound) }
    return .done
  }

  /// Reads `{"body": base64}`.
  private static func decode(_ json: RawSpan) throws(JSONError) -> [UInt8] {
    let body = try JSONReader.property("body", of: json) { reader throws(JSONError) in try reader.base64() }
    guard let body else { throw .wrongShape }
    return body
  }

  /// A number, a key pair and a code, sealed, take some hundred.
  private static let bytesMax = 16 << 10
}

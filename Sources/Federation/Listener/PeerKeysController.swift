import Hummingbird
import RelayCore
import RelayHTTP

/// Prekeys of our accounts, for peers (reference 1.13.2).
struct PeerKeysController: Sendable {
  let dispenser: any PreKeyDispenser

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/key/{number}", [(.get, masterKey)])
    group.resource("v1/federation/key/{number}/{device}", [(.get, deviceKeys)])
    group.resource("v2/federation/key/{number}/{device}", [(.get, signedKeys)])
  }

  /// The form of the first generation, whose peers refuse properties that they do not know.
  private func masterKey(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let drawn = try await dispenser.draw(from: try context.number("number"), devices: .one(.master), version: .one)
    guard let key = drawn.first else { throw Problem(.notFound) }
    return .json(PreKeyCodec.encode(key, withDevice: false))
  }

  private func deviceKeys(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    .json(PreKeyCodec.encode(try await draw(.one, context)))
  }

  private func signedKeys(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    .json(PreKeyCodec.encodeV2(try await draw(.two, context)))
  }

  private func draw(_ version: PreKeyVersion, _ context: PeerContext) async throws(Problem) -> [DrawnPreKey] {
    let number = try context.number("number")
    let selector = try DeviceSelector(text: try context.segment("device"))
    return try await dispenser.draw(from: number, devices: selector, version: version)
  }
}

import Hummingbird
import RelayCore
import RelayHTTP

/// Prekeys of our accounts, for peers (reference 1.13.2).
struct PeerKeysController: Sendable {
  let dispenser: any PreKeyDispenser

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/key/{number}", [(.get, masterKey)])
    group.resource("v1/federation/key/{number}/{device}", [(.get, deviceKeys)])
  }

  /// The form of the first generation, whose peers refuse properties that they do not know.
  private func masterKey(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let drawn = try await dispenser.draw(from: try context.number("number"), devices: .one(.master))
    guard let key = drawn.first else { throw Problem(.notFound) }
    return .json(PreKeyCodec.encode(key, withDevice: false))
  }

  private func deviceKeys(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let number = try context.number("number")
    let selector = try DeviceSelector(text: try context.segment("device"))
    return .json(PreKeyCodec.encode(try await dispenser.draw(from: number, devices: selector)))
  }
}

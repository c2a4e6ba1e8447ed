import Hummingbird
import RelayCore
import RelayHTTP

/// Prekeys of our accounts, for peers (reference 1.13.2).
struct PeerKeysController: Sendable {
  let dispenser: any PreKeyDispenser
  let budget: PeerBudget

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/key/{number}", [(.get, masterKey)])
    group.resource("v1/federation/key/{number}/{device}", [(.get, deviceKeys)])
    group.resource("v2/federation/key/{number}/{device}", [(.get, signedKeys)])
  }

  /// The form of the first generation, whose peers refuse properties that they do not know.
  private func masterKey(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let drawn = try await draw(.one(.master), .one, context)
    guard let key = drawn.first else { throw Problem(.notFound) }
    return .json(PreKeyCodec.encode(key, withDevice: false))
  }

  private func deviceKeys(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    .json(PreKeyCodec.encode(try await draw(try context.selector(), .one, context)))
  }

  private func signedKeys(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    .json(PreKeyCodec.encodeV2(try await draw(try context.selector(), .two, context)))
  }

  /// Both refusals are 413, which the peer passes on to its client (reference 1.13.4).
  private func draw(
    _ selector: DeviceSelector, _ version: PreKeyVersion, _ context: PeerContext
  ) async throws(Problem) -> [DrawnPreKey] {
    let peer = context.peer.name
    let number = try context.number("number")
    let key = LimitKey(peer, LimitKey(number, selector))
    // Before they are drawn: keys that were given out are gone, whoever pays for them.
    return try await dispenser.draw(from: number, devices: selector, version: version) { cost throws(Problem) in
      try await budget.charge(
        [.request, .preKeys(max(1, cost.keys))], of: peer, and: LimitCharge(Self.charge, from: .preKeys, key: key),
        thenEach: cost.targets)
    }
  }

  /// All clients of a peer share its bucket: it holds as much as those of ten clients of ours.
  private static let charge = 0.1
}

extension PeerContext {
  fileprivate func selector() throws(Problem) -> DeviceSelector { try DeviceSelector(text: try segment("device")) }
}

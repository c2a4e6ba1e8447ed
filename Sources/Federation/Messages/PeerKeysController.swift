import Hummingbird
import Logging
import NIOCore
import RelayCore
import RelayHTTP

/// Prekeys of our accounts, for peers: of one account a request (reference 1.13.2), or of many
/// (docs/federation-wire.md, "Draws together").
struct PeerKeysController: Sendable {
  let dispenser: any PreKeyDispenser
  let budget: PeerBudget
  private let failures = FailedRequests()
  /// The turns of batches. A batch reads its accounts side by side, and PostgreSQL takes 10,000 questions at a time.
  private let turns = PeerTurns(perPeer: 32, all: 64, retryAfter: .seconds(1))

  init(dispenser: any PreKeyDispenser, budget: PeerBudget) {
    self.dispenser = dispenser
    self.budget = budget
  }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/key/{number}", [(.get, masterKey)])
    group.resource("v1/federation/key/{number}/{device}", [(.get, deviceKeys)])
    group.resource("v2/federation/key/{number}/{device}", [(.get, signedKeys)])
    group.resource("v1/federation/keys", [(.put, many)])
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

  private func draw(
    _ selector: DeviceSelector, _ version: PreKeyVersion, _ context: PeerContext
  ) async throws(Problem) -> [DrawnPreKey] {
    let draw = KeyDraw(account: try context.number("number"), devices: selector, version: version)
    return try await keys(for: draw, of: context.peer.name, charges: [.request])
  }

  /// Both refusals are 413, which the peer passes on to its client (reference 1.13.4).
  /// - Parameter charges: what the peer's budget is charged for it besides.
  private func keys(
    for draw: KeyDraw, of peer: RelayName, charges: [BudgetCharge] = []
  ) async throws(Problem) -> [DrawnPreKey] {
    let key = LimitKey(peer, LimitKey(draw.account, draw.devices))
    // Before the account is read: a peer beyond its budget learns nothing of it, and costs no reading.
    try budget.demandRoom(for: charges + [.preKeys(1)], of: peer)
    // Before they are drawn: keys that were given out are gone, whoever pays for them.
    return try await dispenser.draw(from: draw.account, devices: draw.devices, version: draw.version) {
      cost throws(Problem) in
      try await budget.charge(
        charges + [.preKeys(max(1, cost.keys))], of: peer, and: LimitCharge(Self.charge, from: .preKeys, key: key),
        thenEach: cost.targets)
    }
  }

  /// All clients of a peer share its bucket: it holds as much as those of ten clients of ours.
  private static let charge = 0.1
}

// MARK: - Many at once

extension PeerKeysController {
  /// Every draw is answered as the request for it alone would be; 200 says only that the batch could be read.
  private func many(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer.name
    let body = try await budget.body(
      of: request, as: KeyBatchCodec.mediaType, max: KeyBatchCodec.bodyBytesMax, from: peer)
    let draws = try KeyBatchCodec.decode(Array(buffer: body))
    let answers = try await turns.take(of: peer) { () async throws(Problem) in await self.answers(to: draws, of: peer) }
    tellOfFailures(draws, answers, context)
    return Response(
      status: .ok, headers: [.contentType: KeyBatchCodec.mediaType],
      body: ResponseBody(byteBuffer: ByteBuffer(bytes: try KeyBatchCodec.encode(answers))))
  }

  /// Side by side: so they share the calls to the limiter and the store.
  private func answers(
    to draws: [Result<KeyDraw, Problem>], of peer: RelayName
  ) async -> [Result<[DrawnPreKey], Problem>] {
    await withTaskGroup(of: (Int, Result<[DrawnPreKey], Problem>).self) { group in
      var answers = draws.map { draw in draw.map { _ in [DrawnPreKey]() } }
      for (index, draw) in draws.enumerated() {
        guard let draw = draw.success else { continue }
        group.addTask {
          do throws(Problem) {
            return (index, .success(try await keys(for: draw, of: peer)))
          } catch {
            return (index, .failure(error))
          }
        }
      }
      for await (index, answer) in group { answers[index] = answer }
      return answers
    }
  }

  /// The log hears of each that was not served, by the id of its client's request where that is known.
  private func tellOfFailures(
    _ draws: [Result<KeyDraw, Problem>], _ answers: [Result<[DrawnPreKey], Problem>], _ context: PeerContext
  ) {
    for (draw, answer) in zip(draws, answers) {
      guard let refusal = answer.failure, refusal.kind.status >= 500 else { continue }
      RequestID.$current.withValue(draw.success?.request ?? RequestID.current) {
        failures.note(refusal, at: ["peer": "\(context.peer.name)", "route": "keys"], in: context.logger)
      }
    }
  }
}

extension PeerContext {
  fileprivate func selector() throws(Problem) -> DeviceSelector { try DeviceSelector(text: try segment("device")) }
}

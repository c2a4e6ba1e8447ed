import Hummingbird
import RelayCore
import RelayHTTP
import Synchronization

/// Tells a peer its remaining budgets here: `{"budgets": [{"name", "size", "perMinute", "space"}, ...]}`, whole
/// numbers rounded down (docs/federation.md, "Budgets").
///
/// The request is charged to no budget, because a peer that has used one up should see it. To keep it cheap, an
/// answer serves for a second.
final class BudgetController: Sendable {
  private struct Answer {
    let json: [UInt8]
    let made: ContinuousClock.Instant
  }

  private let budget: PeerBudget
  /// The answers to peers that asked within the last second. There are no more of them than active peers.
  private let answers = Mutex<[RelayName: Answer]>([:])

  private static let answerLife = Duration.seconds(1)

  init(budget: PeerBudget) { self.budget = budget }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/budget", [(.get, show)])
  }

  @Sendable private func show(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer.name
    if let answer = answers.withLock({ $0[peer] }), ContinuousClock.now - answer.made < Self.answerLife {
      return .json(answer.json)
    }
    let json = await self.json(of: peer)
    let now = ContinuousClock.now
    answers.withLock { answers in
      answers = answers.filter { now - $0.value.made < Self.answerLife }
      answers[peer] = Answer(json: json, made: now)
    }
    return .json(json)
  }

  private func json(of peer: RelayName) async -> [UInt8] {
    var writer = JSONWriter(capacity: 512)
    writer.beginObject()
    writer.key("budgets")
    writer.beginArray()
    for name in PeerBudget.names {
      let shape = budget.limiter.shape(of: name)
      let space = await budget.limiter.space(in: name, key: LimitKey(peer))
      writer.beginObject()
      writer.key("name")
      writer.string(name.rawValue)
      writer.key("size")
      writer.integer(Int64(shape.size))
      writer.key("perMinute")
      writer.integer(Int64(shape.perMinute))
      writer.key("space")
      writer.integer(Int64(max(0, space)))
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}

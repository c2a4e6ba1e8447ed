import Crypto
import Hummingbird
import NIOCore
package import RelayCore
import RelayHTTP

/// The parts that oblivious look-ups need, if the operator offers them.
package struct ObliviousDirectory: Sendable {
  let keyring: ObliviousKeyring
  let evaluator: ObliviousEvaluator
  let pages: ObliviousPages

  /// - Parameter indexer: keeps the outputs up to date, and the keyring too.
  package init(indexer: ObliviousIndexer, store: any ObliviousStore) {
    keyring = indexer.keyring
    evaluator = ObliviousEvaluator(threads: indexer.threads, metrics: indexer.metrics)
    pages = ObliviousPages(store: store, clock: indexer.clock)
  }

  /// For a process that leaves the outputs to others.
  package init(keys: ObliviousKeyWatch, store: any ObliviousStore, clock: WallClock) {
    keyring = keys.keyring
    evaluator = ObliviousEvaluator(threads: ObliviousThreads(), metrics: ObliviousMetrics())
    pages = ObliviousPages(store: store, clock: clock)
  }
}

/// Look-ups that do not tell the relay what is looked for (docs/protocol.md, "Oblivious look-up").
struct ObliviousController: Sendable {
  private let source: any ContactSource
  private let gate: LookUpGate
  private let limiter: any RateLimiter
  /// nil: not offered, and the paths are as any unknown one.
  private let directory: ObliviousDirectory?

  init(source: any ContactSource, gate: LookUpGate, limiter: any RateLimiter, directory: ObliviousDirectory?) {
    self.source = source
    self.gate = gate
    self.limiter = limiter
    self.directory = directory
  }

  func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/directory/oblivious/evaluations", [(.put, evaluate)])
    router.resource("/v1/directory/oblivious/registered", [(.get, registered)])
  }

  @Sendable private func evaluate(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard let directory else { throw Problem(.notFound) }
    let body = try await context.jsonBody(of: request, max: WireLimits.obliviousRequestBytesMax)
    let elements = try Self.elements(of: body)
    guard let key = directory.keyring.key else { throw Self.notReady }
    guard !elements.isEmpty else {
      return .json(ObliviousCodec.answer(key: key.publicBytes, evaluations: [], proof: nil))
    }
    let account = context.caller.address.account
    // Before anything is charged.
    let place = try directory.evaluator.admit(elements.count, of: account)
    // The budget does not count the very same element twice, and each costs as much computing as any: that is the
    // bucket's.
    try await limiter.charge(.obliviousElements, LimitKey(account), amount: Double(elements.count))
    try await gate.spend(elements.map(Self.mark), of: account)
    let evaluations = try await directory.evaluator.evaluate(elements, with: key, in: place)
    return .json(
      ObliviousCodec.answer(key: key.publicBytes, evaluations: evaluations.elements, proof: evaluations.proof))
  }

  @Sendable private func registered(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    guard let directory else { throw Problem(.notFound) }
    let query = request.uri.queryParameters
    let range = try Self.range(prefix: query.get("prefix"), after: query.get("after"))
    try source.demandReady(for: nil)
    guard let key = directory.keyring.key else { throw Self.notReady }
    let account = context.caller.address.account
    // Before anything is charged.
    let place = try directory.pages.admit(account)
    try await limiter.charge(.obliviousPages, LimitKey(account))
    let outputs = try await directory.pages.outputs(under: key.id, in: range, in: place)
    let last = outputs.count == ObliviousCodec.outputsPerPage ? outputs.last?.output : nil
    return .json(
      ObliviousCodec.page(
        key: key.publicBytes, suggestedDigits: ObliviousPrefix.suggestedDigits(for: source.count),
        outputs: try await registered(outputs), next: last == range?.upperBound ? nil : last))
  }

  /// The relays of those `contacts` that the directory in memory knows, as look-ups tell them. It follows the store
  /// faster than the outputs do. A contact that is in only one of them has just come or gone.
  private func registered(_ contacts: [ContactOutput]) async throws(Problem) -> [RegisteredOutput] {
    guard !contacts.isEmpty else { return [] }
    let found = try await source.find(WantedContacts(contacts.map(\.token)))
    return found.hits.compactMap { hit in
      let entry = hit.entry
      guard entry.relay <= found.names.count else { return nil }
      return RegisteredOutput(
        contacts[hit.index].output, relay: entry.relay == 0 ? nil : found.names[entry.relay - 1],
        supportsSMS: entry.supportsSMS, voice: entry.voice)
    }
  }

  /// The mark by which the budget counts an element. The relay cannot tell which contact an element stands for, nor
  /// whether that contact was asked for before. So each different element counts as another contact. The same element
  /// again, as after a lost answer, costs nothing.
  private static func mark(_ element: [UInt8]) -> ContactToken {
    ContactToken(firstBytesOf: Array(SHA256.hash(data: element)))
  }

  private static func elements(of body: ByteBuffer) throws(Problem) -> [[UInt8]] {
    do throws(ObliviousCodec.Refusal) {
      return try ObliviousCodec.elements(body.readableBytesUInt8Span.bytes)
    } catch {
      switch error {
      case .undecodable: throw Problem(.undecodableElement)
      case .tooMany: throw Problem(.tooManyElements)
      case .json(let error): throw Problem(error)
      }
    }
  }

  /// - Returns: nil when nothing can lie behind `after`.
  private static func range(prefix: String?, after: String?) throws(Problem) -> ClosedRange<ObliviousOutput>? {
    guard let range = ObliviousPrefix(prefix ?? "")?.range else { throw Problem(.invalidPrefix) }
    guard let after else { return range }
    guard let last = ObliviousOutput(cursorText: after) else { throw Problem(.invalidPrefix) }
    guard last < range.upperBound else { return nil }
    return max(range.lowerBound, ObliviousOutput(bits: last.bits + 1))...range.upperBound
  }

  private static let notReady = Problem(.unavailable, retryAfter: .seconds(1))
}

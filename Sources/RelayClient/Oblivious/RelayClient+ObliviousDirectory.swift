import RelayCore
import RelayWork

extension RelayClient {
  /// Finds out which of `tokens` are registered, and where they live: without telling the relay which they are, if the
  /// relay offers that (``lookUpObliviously(_:telling:contacts:)``), else by ``lookUpInClear(_:)``.
  ///
  /// If `contacts` has no ``ObliviousContacts/key`` afterwards, the relay does not offer it, and has learnt all tokens.
  /// A relay that has offered it once gets no look-up in clear any more, so it cannot ask for the address book by
  /// taking the offer back. If you trust such a relay all the same, begin again with an empty memory.
  ///
  /// A relay that is busy, or whose outputs are not complete yet, as in the first seconds after its start, answers 503.
  /// Then nothing is told in clear either: call again after `retryAfter`.
  /// - Parameters:
  ///   - tokens: as ``ContactTokens/token(for:)`` writes them.
  ///   - disclosure: the part of the contacts' outputs that the relay is told.
  ///   - contacts: the memory of the look-ups before. Store it for the next one, also after an error: without it each
  ///     look-up costs the account's limits for all contacts again.
  /// - Returns: one entry for each registered token, in the order of the request.
  /// - Throws: the errors of both look-ups. `.refused` with 404 means that the relay offered it before and does not any
  ///   more.
  public func lookUp(
    _ tokens: [String], telling disclosure: ObliviousDisclosure = .nothing, contacts: inout ObliviousContacts
  ) async throws(RelayClientError) -> [Contact] {
    do throws(RelayClientError) {
      return try await lookUpObliviously(tokens, telling: disclosure, contacts: &contacts).contacts
    } catch {
      // 405: other servers have no such path, and some know it for other methods.
      guard contacts.key == nil, error.status == 404 || error.status == 405 else { throw error }
      return try await lookUpInClear(tokens)
    }
  }

  /// Finds out which of `tokens` are registered, and where they live, without telling the relay which they are. Only
  /// this project's relays know it (docs/protocol.md, "Oblivious look-up").
  ///
  /// It sends several requests. Contacts that `contacts` does not have yet are blinded and sent, 1,000 in a request,
  /// and the relay's proofs are verified: some 0.25 ms of computing for each contact. Such a request is sent up to four
  /// times when its answer is lost or the relay is busy. Then the outputs of registered contacts are
  /// downloaded and compared here. Contacts of peers that the relay does not copy are not found.
  /// - Parameters:
  ///   - tokens: as ``ContactTokens/token(for:)`` writes them.
  ///   - disclosure: the part of the contacts' outputs that the relay is told.
  ///   - contacts: the memory of the look-ups before. Store it for the next one, also after an error: what was learnt
  ///     is in it.
  /// - Returns: the registered contacts, with their relays.
  /// - Throws: `.invalidArgument` for a token that is not the base64 of 10 bytes, or a number of digits that is not
  ///   1...8. `.refused`: 404 a relay that does not offer it; 413 too many contacts; 503 a relay that is busy, or
  ///   whose outputs are not complete yet. `.unexpectedAnswer` for a wrong proof, or when the relay's key changes
  ///   meanwhile.
  public func lookUpObliviously(
    _ tokens: [String], telling disclosure: ObliviousDisclosure = .nothing, contacts: inout ObliviousContacts
  ) async throws(RelayClientError) -> ObliviousAnswer {
    if case .digits(let count) = disclosure, !(1...ObliviousPrefix.digitsMax).contains(count) {
      throw .invalidArgument("a prefix has 1 to \(ObliviousPrefix.digitsMax) digits")
    }
    let key = try await evaluations(of: []).key
    contacts.adopt(key)
    try await ask(for: tokens, into: &contacts)
    let wanted = Set(tokens.compactMap { contacts[$0] })
    let (found, digits) = try await registered(wanted, disclosure, under: key)
    var told: Set<String> = []
    var registered: [Contact] = []
    for token in tokens {
      guard let output = contacts[token], let home = found[output], told.insert(token).inserted else { continue }
      registered.append(Contact(token: token, relay: home.relay?.text))
    }
    return ObliviousAnswer(contacts: registered, suggestedDigits: digits)
  }
}

// MARK: - Outputs

extension RelayClient {
  /// Has the relay evaluate what `contacts` does not have.
  private func ask(for tokens: [String], into contacts: inout ObliviousContacts) async throws(RelayClientError) {
    var missing: [(text: String, token: ContactToken)] = []
    var seen: Set<String> = []
    for text in tokens where contacts[text] == nil && seen.insert(text).inserted {
      guard let bytes = Base64.decode(text), let token = ContactToken(bytes: bytes) else {
        throw .invalidArgument("a token is the base64 of 10 bytes")
      }
      missing.append((text, token))
    }
    for first in stride(from: 0, to: missing.count, by: ObliviousCodec.elementsMax) {
      let part = Array(missing[first..<min(missing.count, first + ObliviousCodec.elementsMax)])
      let outputs = try await outputs(of: part.map(\.token), under: contacts.key)
      for (contact, output) in zip(part, outputs) { contacts[contact.text] = output }
    }
  }

  private func outputs(of tokens: [ContactToken], under key: String?) async throws(RelayClientError)
    -> [ObliviousOutput]
  {
    let (batch, elements) = try await Self.computing { () throws(ObliviousBatch.Refusal) in
      let batch = try ObliviousBatch(tokens)
      return (batch, batch.elements)
    }
    let answer = try await evaluationsAtLast(of: elements)
    guard answer.key == key, let keyBytes = Base64.decode(answer.key) else { throw Self.anotherKey }
    let evaluations = answer.evaluations.map { Base64.decode($0) ?? [] }
    let proof = answer.proof.flatMap { Base64.decode($0) } ?? []
    return try await Self.computing { () throws(ObliviousBatch.Refusal) in
      try batch.finish(evaluations, proof: proof, under: keyBytes)
    }
  }

  private struct Evaluations: Decodable {
    let key: String
    let evaluations: [String]
    /// Missing where there are no evaluations.
    let proof: String?
  }

  /// Sends the very same elements again after a lost answer and while the relay is busy: blinded anew, the contacts
  /// would cost the account's budget once more.
  private func evaluationsAtLast(of elements: [[UInt8]]) async throws(RelayClientError) -> Evaluations {
    var triesLeft = 4
    while true {
      do throws(RelayClientError) {
        return try await evaluations(of: elements)
      } catch {
        triesLeft -= 1
        guard triesLeft > 0, let pause = Self.pause(after: error) else { throw error }
        // Cancelled: the failure is what there is to say.
        guard await Pause.for(pause) else { throw error }
      }
    }
  }

  /// - Returns: nil where the same request would fail again.
  private static func pause(after failure: RelayClientError) -> Duration? {
    switch failure {
    case .unreachable, .timedOut: .seconds(1)
    case .refused(503, _, let retryAfter): min(retryAfter ?? .seconds(1), .seconds(10))
    default: nil
    }
  }

  private func evaluations(of elements: [[UInt8]]) async throws(RelayClientError) -> Evaluations {
    var request = RelayRequest(
      .put, "/v1/directory/oblivious/evaluations", answerBytesMax: AnswerLimits.evaluationsBytesMax,
      contentType: "application/json")
    request.body = ObliviousCodec.request(elements)
    return try await send(request).decoded(Evaluations.self)
  }

  private static let anotherKey = RelayClientError.unexpectedAnswer(
    status: 200, reason: "the relay's key has changed meanwhile")

  /// Computes on a thread that is made for it: not on one of Swift's own.
  private static func computing<Value: Sendable>(
    _ work: @escaping @Sendable () throws(ObliviousBatch.Refusal) -> Value
  ) async throws(RelayClientError) -> Value {
    do throws(ObliviousBatch.Refusal) {
      if let value = try await BlockingWork.run(work) { return value }
    } catch {
      switch error {
      case .malformed: throw .unexpectedAnswer(status: 200, reason: "an evaluation, the proof or the key is malformed")
      case .unproved: throw .unexpectedAnswer(status: 200, reason: "the evaluations are not proved")
      }
    }
    throw .unreachable(reason: "the process is ending")
  }
}

// MARK: - Membership

extension RelayClient {
  /// Pages of one prefix: a thousand million contacts.
  private static let pagesMax = 100_000

  private typealias Found = [ObliviousOutput: RegisteredOutput]

  /// - Returns: those of `wanted` that registered contacts have, and the digits that the relay suggests.
  private func registered(
    _ wanted: Set<ObliviousOutput>, _ disclosure: ObliviousDisclosure, under key: String
  ) async throws(RelayClientError) -> (found: Found, suggestedDigits: Int) {
    let prefixes: Set<ObliviousPrefix>
    switch disclosure {
    case .nothing: prefixes = wanted.isEmpty ? [] : [.all]
    case .digits(let count): prefixes = Set(wanted.map { ObliviousPrefix(of: $0, digitCount: count) })
    }
    var found: Found = [:]
    var digits = 0
    // In an order that tells nothing of the address book's.
    for prefix in prefixes.sorted(by: { $0.text < $1.text }) {
      digits = try await read(prefix, under: key) { page in
        for entry in page where wanted.contains(entry.output) { found[entry.output] = entry }
      }
    }
    return (found, digits)
  }

  /// Reads all pages of `prefix`. - Returns: the digits that the relay suggests.
  private func read(
    _ prefix: ObliviousPrefix, under key: String, _ take: ([RegisteredOutput]) -> Void
  ) async throws(RelayClientError) -> Int {
    var after: ObliviousOutput?
    for _ in 0..<Self.pagesMax {
      let page = try await page(prefix, after: after)
      guard page.key == key else { throw Self.anotherKey }
      let outputs = try page.outputs(behind: after, in: prefix)
      take(outputs)
      guard let next = page.next else { return page.suggestedDigits }
      // Behind the last output that is shown: contacts that have just gone are not.
      guard let last = ObliviousOutput(cursorText: next), prefix.range.contains(last),
        after.map({ last > $0 }) ?? true, outputs.last.map({ last >= $0.output }) ?? true
      else { break }
      after = last
    }
    throw .unexpectedAnswer(status: 200, reason: "the pages of outputs have no end")
  }

  private func page(_ prefix: ObliviousPrefix, after: ObliviousOutput?) async throws(RelayClientError) -> ObliviousPage
  {
    let cursor = after.map { "&after=\($0.cursorText)" } ?? ""
    let path = "/v1/directory/oblivious/registered?prefix=\(prefix.text)\(cursor)"
    return try await send(RelayRequest(.get, path, answerBytesMax: AnswerLimits.outputsBytesMax))
      .decoded(ObliviousPage.self)
  }
}

import RelayCore
import RelayHTTP

/// Serves `POST /v1/messages/`: messages of the first generation, each on its own way (reference 1.8).
///
/// Every message goes to device 1 of its destination, together with the others for it. One destination's failure never
/// hides another's success: both are told by number.
struct LegacySubmission: Sendable {
  let intake: any Intake
  let courier: any Courier
  let homes: any HomeFinder
  let limiter: any RateLimiter
  let gate: CorrespondenceGate
  let senders: TopSenders

  /// - Returns: the numbers all of whose messages are durable, and the others, none of whose messages are; each number
  ///   once, in the order of the request.
  /// - Throws: when nothing at all was accepted: `.unavailable` or the like if a store or a peer failed, else
  ///   the refusal by a limit (413) if it is only that.
  func submit(_ bundle: LegacyBundle, from sender: DeviceAddress) async throws(Problem)
    -> (success: [String], failure: [String])
  {
    let routes = Route.grouping(bundle.entries)
    let outcomes = await withTaskGroup(of: (Int, Outcome).self) { group in
      var outcomes = [Outcome](repeating: .accepted, count: routes.count)
      for (index, route) in routes.enumerated() {
        if index >= Self.atOnceMax, let (done, outcome) = await group.next() { outcomes[done] = outcome }
        group.addTask { (index, await submit(route, from: sender)) }
      }
      for await (done, outcome) in group { outcomes[done] = outcome }
      return outcomes
    }
    if let problem = Self.commonProblem(outcomes) { throw problem }
    return Self.lists(routes, outcomes)
  }

  /// All of the route's messages or none: what is reported as failed is sent again, and must not arrive twice.
  private func submit(_ route: Route, from sender: DeviceAddress) async -> Outcome {
    do throws(Problem) {
      guard let destination = AccountNumber(e164: route.destination), route.isOneWay else { throw Problem(.notFound) }
      try await limiter.chargeMessages(route.messages.count, LimitKey(sender.account, destination))
      let submission = Submission(
        destination: destination, messages: route.messages, timestamp: nil, coverage: .masterDevice,
        request: .current)
      try await gate.reach(destination, by: sender.account) { () async throws(Problem) in
        try await submit(submission, to: route.relay, from: sender)
      }
      senders.note(route.messages.count, from: sender.account)
      return .accepted
    } catch {
      return .refused(error)
    }
  }

  private func submit(_ submission: Submission, to relay: String?, from sender: DeviceAddress) async throws(Problem) {
    // As with a bundle for one number.
    guard relay == nil || submission.destination != sender.account else { throw Problem(.syncThroughRelay) }
    let home =
      submission.destination == sender.account ? nil : try await homes.relay(for: submission.destination, named: relay)
    guard let relay = home else {
      _ = try await intake.accept(submission, from: .client(sender))
      return
    }
    try await courier.submit(submission, from: sender, to: relay)
  }

  /// The refusal of the whole request; nil if something was accepted, or if the lists say it all.
  private static func commonProblem(_ outcomes: [Outcome]) -> Problem? {
    let problems = outcomes.compactMap(\.problem)
    guard !problems.isEmpty, problems.count == outcomes.count else { return nil }
    if let trouble = problems.first(where: { $0.kind.status >= 500 }) { return trouble }
    guard problems.allSatisfy({ $0.kind.status == Problem.Kind.rateLimited.status }) else { return nil }
    return problems.max { ($0.retryAfter ?? .zero) < ($1.retryAfter ?? .zero) }
  }

  private static func lists(_ routes: [Route], _ outcomes: [Outcome]) -> (success: [String], failure: [String]) {
    let failed = Set(zip(routes, outcomes).filter { $1.problem != nil }.map(\.0.destination))
    var numbers: [String] = []
    for route in routes where !numbers.contains(route.destination) { numbers.append(route.destination) }
    return (numbers.filter { !failed.contains($0) }, numbers.filter { failed.contains($0) })
  }

  /// Destinations at one time: a peer that is slow holds up few others.
  private static let atOnceMax = 16

  private enum Outcome: Sendable {
    /// Every message of the route is durable.
    case accepted
    /// None is, and why.
    case refused(Problem)

    var problem: Problem? {
      switch self {
      case .accepted: nil
      case .refused(let problem): problem
      }
    }
  }

  /// The messages for one destination, in the order of the request.
  private struct Route {
    let destination: String
    let relay: String?
    /// Whether all messages name the same relay. A number is at one: what is sent by two could arrive by half.
    var isOneWay = true
    var messages: [SubmittedMessage]

    /// By first mention.
    static func grouping(_ entries: [LegacyBundle.Entry]) -> [Route] {
      var routes: [Route] = []
      for entry in entries {
        let known = routes.firstIndex { $0.destination == entry.destination }
        if let known {
          routes[known].isOneWay = routes[known].isOneWay && routes[known].relay == entry.relay
          routes[known].messages.append(entry.message)
        } else {
          routes.append(Route(destination: entry.destination, relay: entry.relay, messages: [entry.message]))
        }
      }
      return routes
    }
  }
}

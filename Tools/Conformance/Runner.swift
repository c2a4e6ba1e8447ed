// Runs the suite: one rule after the other, each and the whole within a time.

import RelayClient

/// The target of the examination, and its options.
package struct ConformanceOptions: Sendable {
  package var target: String
  /// As `ConformanceSuite.areas(matching:)` reads it.
  package var filter: String?
  /// Peers of the target, by the names it has for them.
  package var relays: [String] = []
  /// The base URL of a peer of the target, where accounts can be registered too.
  package var across: String?
  /// The prefix of fresh numbers.
  package var numberPrefix = FreshNumbers.defaultPrefix
  /// For the whole run.
  package var timeout: Duration = .seconds(300)
  /// For each request.
  package var requestTimeout: Duration = .seconds(10)
  /// PEM text of the certificates that may vouch for the target; nil trusts the system's.
  package var trustRootsPEM: String?

  package init(target: String) { self.target = target }
}

/// How a rule came out.
package enum Verdict: Sendable, Equatable {
  case kept
  case broken(RuleFailure)
  /// A limit stood in the way, for so many seconds if it says so: nothing was shown.
  case limited(retryAfterSeconds: Int?)
  /// It does not apply to this server, or cannot be seen there.
  case skipped(String)
  /// The run's time was over before.
  case notRun
}

package struct RuleResult: Sendable {
  package let area: String
  package let rule: Rule
  package let verdict: Verdict
  package let duration: Duration
}

/// All results, in the suite's order.
package struct ConformanceReport: Sendable {
  package let results: [RuleResult]
  package let duration: Duration

  package func count(_ isCounted: (Verdict) -> Bool) -> Int { results.count { isCounted($0.verdict) } }

  /// Every rule was kept or does not apply. Rules that were limited or not run have shown nothing.
  package var isConforming: Bool {
    results.allSatisfy { result in
      switch result.verdict {
      case .kept, .skipped: true
      case .broken, .limited, .notRun: false
      }
    }
  }
}

package enum ConformanceRunner {
  /// The longest that one rule may take, limits waited out included.
  private static let ruleTimeout = Duration.seconds(60)

  /// Runs the rules that `options` name against its target.
  /// - Parameter show: called with each result when it is there.
  /// - Throws: `RunFailure` when no rule could be tried: no such rules, no server, or one without transport `dev`.
  package static func run(
    _ options: ConformanceOptions, show: (RuleResult) -> Void
  ) async throws -> ConformanceReport {
    let areas = ConformanceSuite.areas(matching: options.filter)
    guard !areas.isEmpty else { throw RunFailure("No rule matches the filter; --list shows them all.") }
    guard let numbers = FreshNumbers(prefix: options.numberPrefix) else {
      throw RunFailure("The prefix of numbers must be + and one to eight digits, the first no 0.")
    }
    let target = try Target(
      url: options.target, trustRootsPEM: options.trustRootsPEM, requestTimeout: options.requestTimeout)
    var session = Session(target: target, numbers: numbers, relays: options.relays)
    let outcome: Result<ConformanceReport, any Error>
    do {
      try await checkDevelopment(session)
      if let across = options.across {
        session.across = try Target(
          url: across, trustRootsPEM: options.trustRootsPEM, requestTimeout: options.requestTimeout)
        try await checkDevelopment(try session.far())
      }
      outcome = .success(await run(areas, session, within: options.timeout, show: show))
    } catch {
      outcome = .failure(error)
    }
    await session.across?.close()
    await target.close()
    return try outcome.get()
  }

  /// Whether codes can be had at all.
  private static func checkDevelopment(_ session: Session) async throws {
    let answer: Answer
    do {
      answer = try await session.send(Exchange("GET", "/v1/accounts/dev/code/\(session.numbers.draw())"))
    } catch let failure as RuleFailure {
      throw RunFailure("\(session.target.url) gives no answer: \(failure.got).")
    } catch let limit as RuleLimited {
      throw RunFailure(
        "The server limits requests for codes" + (limit.retryAfter.map { ": try again in \($0) s." } ?? "."))
    }
    guard answer.status == 200, session.sixDigits(of: answer.text) != nil else {
      throw RunFailure(
        """
        \(session.target.url) does not answer a request for a code by the transport `dev` with a code \
        (status \(answer.summary)). The suite registers its accounts by it. On a test server of this project: \
        development.enabled=true (RELAY_DEVELOPMENT_ENABLED=true).
        """)
    }
  }

  private static func run(
    _ areas: [RuleArea], _ session: Session, within limit: Duration, show: (RuleResult) -> Void
  ) async -> ConformanceReport {
    let clock = ContinuousClock()
    let start = clock.now
    var results: [RuleResult] = []
    for area in areas {
      for rule in area.rules {
        let began = clock.now
        let left = limit - (began - start)
        let verdict = left > .zero ? await verdict(of: rule, session, within: left) : .notRun
        results.append(RuleResult(area: area.name, rule: rule, verdict: verdict, duration: clock.now - began))
        show(results[results.count - 1])
      }
    }
    return ConformanceReport(results: results, duration: clock.now - start)
  }

  private static func verdict(of rule: Rule, _ session: Session, within left: Duration) async -> Verdict {
    do {
      try await withDeadline(min(left, ruleTimeout)) { try await rule.run(session) }
      return .kept
    } catch let failure as RuleFailure {
      return .broken(failure)
    } catch let limit as RuleLimited {
      return .limited(retryAfterSeconds: limit.retryAfter)
    } catch let skip as RuleSkipped {
      return .skipped(skip.reason)
    } catch RelayClientError.timedOut where left < ruleTimeout {
      return .notRun
    } catch RelayClientError.timedOut {
      return .broken(RuleFailure(expected: "an end within \(ruleTimeout.components.seconds) s", got: "none"))
    } catch is CancellationError {
      return .notRun
    } catch {
      return .broken(RuleFailure(expected: "a rule that can be tried", got: "\(error)"))
    }
  }
}

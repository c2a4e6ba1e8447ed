package import Logging
package import RelayCore

/// Tells the log of requests that were not served, each with its id, as far as the log has room for them: by them an
/// operator finds what a client or a peer complains of (`relay explain`).
package final class FailedRequests: Sendable {
  private let budget: LineBudget

  package init(budget: LineBudget = LineBudget()) { self.budget = budget }

  /// - Parameters:
  ///   - problem: what was answered. Below 500 the request is the caller's to mend, and only the log at `debug` has it.
  ///   - place: words that say what was asked, such as the route; never data of the request.
  package func note(_ problem: Problem, at place: @autoclosure () -> Logger.Metadata, in logger: Logger) {
    let status = problem.kind.status
    guard status >= 500 else {
      logger.debug("request refused", metadata: Self.metadata(problem, place()))
      return
    }
    guard let unwritten = budget.take() else { return }
    var metadata = Self.metadata(problem, place())
    if unwritten > 0 { metadata["unwritten"] = "\(unwritten)" }
    // A failure is ours to mend. An outage is told of once, where its cause is.
    if status == 503 {
      logger.notice("request not served", metadata: metadata)
    } else {
      logger.error("request failed", metadata: metadata)
    }
  }

  private static func metadata(_ problem: Problem, _ place: Logger.Metadata) -> Logger.Metadata {
    var metadata = place
    metadata["status"] = "\(problem.kind.status)"
    metadata["problem"] = "\(problem.kind.rawValue)"
    if let reason = problem.reason { metadata["reason"] = "\(reason)" }
    return metadata
  }
}

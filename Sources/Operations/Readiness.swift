import RelayWork
import Synchronization

/// Whether requests can be served just now, and if not, why.
package final class Readiness: Sendable {
  private struct State {
    var checks: [ReadinessCheck] = []
    var isDraining = false
  }

  private let state = Mutex(State())
  private let timeout: Duration

  /// - Parameter timeout: how long each check may take; all run at once.
  package init(timeout: Duration = .seconds(2)) { self.timeout = timeout }

  /// Adds a check. Two of one name are both asked; the reason of the later shows.
  /// - Parameter body: nil when ready, else the reason, for operators: no secrets.
  package func add(_ name: String, _ body: @escaping @Sendable () async -> String?) {
    state.withLock { $0.checks.append(ReadinessCheck(name: name, body: body)) }
  }

  /// From here on the answer is no, so that load balancers send no more; what is under way goes on.
  package func drain() { state.withLock { $0.isDraining = true } }

  /// The reasons why not, by the name of the check; empty when ready.
  package func reasons() async -> [String: String] { await outcomes().compactMapValues(\.self) }

  /// The reasons why not, by the name of the check; nil for a check that found nothing amiss.
  package func outcomes() async -> [String: String?] {
    let (checks, isDraining) = state.withLock { ($0.checks, $0.isDraining) }
    if isDraining { return ["draining": "the relay is stopping"] }
    return await withTaskGroup(of: (String, String?).self) { group in
      for check in checks { group.addTask { [timeout] in (check.name, await check.outcome(within: timeout)) } }
      return await group.reduce(into: [:]) { outcomes, result in
        // A reason shows of two checks with one name.
        outcomes[result.0] = .some(result.1 ?? outcomes[result.0] ?? nil)
      }
    }
  }
}

/// One check. Callers that come while it runs share its outcome, so that a check that hangs is running once, however
/// often it is asked.
private final class ReadinessCheck: Sendable {
  private struct State {
    var isRunning = false
    var waiting = Waiters<String?>()
  }

  let name: String
  private let body: @Sendable () async -> String?
  private let state = Mutex(State())

  init(name: String, body: @escaping @Sendable () async -> String?) {
    self.name = name
    self.body = body
  }

  /// The check's answer, or that there was none in time: then the check goes on, and later callers may have its answer.
  func outcome(within timeout: Duration) async -> String? {
    // In a task of its own: what asked for it is not cut short by who does.
    let (caller, isFirst) = state.withLock { state in
      defer { state.isRunning = true }
      return (state.waiting.add(), !state.isRunning)
    }
    if isFirst { Task { finish(await body()) } }
    let outcome = await caller.value(until: .now + timeout)
    state.withLock { $0.waiting.remove(caller) }
    return outcome ?? (Task.isCancelled ? "not waited for" : "no answer within \(timeout)")
  }

  private func finish(_ outcome: String?) {
    state.withLock { state in
      state.isRunning = false
      return state.waiting.takeAll()
    }.end(with: outcome)
  }
}

import Hummingbird
import RelayCore
import Synchronization

/// One peer: what is known of it, and what can be done.
struct ConsolePeerPages: Sendable {
  let console: Console

  @Sendable func show(_ visit: ConsoleVisit) async throws -> Response { try await show(visit, done: nil) }

  private func show(_ visit: ConsoleVisit, done: String?) async throws -> Response {
    let name = try visit.peer()
    guard let peer = try await visit.parts.console.peers().first(where: { $0.name == name }) else {
      throw ConsoleVisit.noPeer
    }
    let pages = ConsolePages(now: visit.parts.clock.now())
    var values: ConsolePages.Values = ["mayChange": visit.session.changer != nil, "peer": pages.row(peer)]
    values["done"] = done
    if PeerLook(peer.peer) == .suspended {
      values["budgetFault"] = "A suspended peer is not asked."
    } else {
      do {
        values["budgets"] = pages.budgets(try await visit.parts.console.budgets(at: name))
      } catch let fault as ConsoleFault {
        values["budgetFault"] = fault.description
      }
    }
    return console.draw("peer", name.text, here: ConsoleLivePage.peers.path, to: visit.session, values)
  }

  @Sendable func test(_ visit: ConsoleVisit) async throws -> Response {
    let name = try visit.peer()
    guard let steps = try await console.walks.alone({ try await visit.parts.console.walk(to: name) }) else {
      throw ConsoleVisit.noPeer
    }
    var values = ConsolePages(now: visit.parts.clock.now()).steps(steps)
    values["name"] = name.text
    return console.draw(
      "test", "The way to \(name)", here: ConsoleLivePage.peers.path, to: visit.session, values)
  }

  @Sendable func retry(_ visit: ConsoleVisit) async throws -> Response {
    let name = try visit.peer()
    let count = try await visit.noting("queue retry", on: name.text) { try await visit.parts.console.retry(name) }
    return try await show(visit, done: count == 0 ? "Nothing waits for it." : "\(count) messages are tried now.")
  }

  @Sendable func suspend(_ visit: ConsoleVisit) async throws -> Response {
    let name = try visit.peer()
    let reason = visit.form["reason"].flatMap { $0.isEmpty ? nil : $0 }
    guard reason.map({ $0.utf8.count <= 200 && !$0.contains(where: \.isNewline) }) ?? true else {
      throw ConsoleFault("A reason is one line of at most 200 bytes.")
    }
    try await visit.noting("peer suspend", on: name.text) {
      guard try await visit.parts.console.suspend(name, because: reason) else { throw ConsoleVisit.noPeer }
    }
    return try await show(visit, done: "\(name) is suspended.")
  }

  @Sendable func resume(_ visit: ConsoleVisit) async throws -> Response {
    let name = try visit.peer()
    try await visit.noting("peer resume", on: name.text) {
      guard try await visit.parts.console.resume(name) else { throw ConsoleVisit.noPeer }
    }
    return try await show(visit, done: "\(name) is active.")
  }
}

/// Tests of ways to peers, one at a time: each sends requests to another operator.
final class ConsoleWalks: Sendable {
  private let isWalking = Mutex(false)

  /// - Throws: a refusal while another test is under way.
  func alone<Value>(_ body: () async throws -> Value) async throws -> Value {
    let isFree = isWalking.withLock { isWalking in
      defer { isWalking = true }
      return !isWalking
    }
    guard isFree else { throw APIProblem(.conflict, "busy", "A test is under way already: wait until it has ended.") }
    defer { isWalking.withLock { $0 = false } }
    return try await body()
  }
}

// Waiting for conditions, never for times.

/// Something that a test needs did not come about.
package struct TestFailure: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

/// The awaited condition did not come true in time.
package struct WaitExpired: Error, CustomStringConvertible {
  package let description: String
}

/// Asks `condition` again and again until it is not nil. `limit` is for an idle machine, a busy one gets more.
/// - Throws: `WaitExpired` naming `what` when it is still nil after that; whatever `condition` throws, at once.
@discardableResult
package func eventually<Value>(
  _ what: String, within limit: Duration = .seconds(60), every pause: Duration = .milliseconds(10),
  isolation: isolated (any Actor)? = #isolation, _ condition: () async throws -> Value?
) async throws -> Value {
  let limit = MachineSpeed.allow(limit)
  let deadline = ContinuousClock.now + limit
  while true {
    if let value = try await condition() { return value }
    guard ContinuousClock.now < deadline else { throw WaitExpired(description: "\(what): not within \(limit)") }
    try await Task.sleep(for: pause)
  }
}

/// Asks `condition` until it is true.
package func eventually(
  _ what: String, within limit: Duration = .seconds(60), every pause: Duration = .milliseconds(10),
  isolation: isolated (any Actor)? = #isolation, _ condition: () async throws -> Bool
) async throws {
  _ = try await eventually(what, within: limit, every: pause) { try await condition() ? () : nil } as Void
}

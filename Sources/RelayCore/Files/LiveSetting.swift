import Synchronization

/// A setting that an operator may change while the process serves. Its users read it each time.
package final class LiveSetting<Value: Sendable>: Sendable {
  private let state: Mutex<Value>

  package init(_ value: Value) { state = Mutex(value) }

  package var value: Value { state.withLock { $0 } }
  package func replace(by value: Value) { state.withLock { $0 = value } }
}

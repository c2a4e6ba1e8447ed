import Foundation
import Synchronization

/// Appends what happens to a file, one JSON object a line, in the order of its times.
///
/// Devices and the driver write from many tasks. Lines gather in memory up to 256 KiB.
package final class HistoryWriter: Sendable {
  private struct State {
    var file: FileHandle?
    var buffer = Data()
    var lines = 0
    var failure: (any Error)?
    var operations = 0
    var connections = 0
  }

  package let path: String
  private let state: Mutex<State>
  private let begun = ContinuousClock.now
  /// Sees every event as it is written, for figures while a campaign goes on.
  private let watcher: @Sendable (Event) -> Void

  /// Creates the file; one that is there is replaced.
  package init(path: String, watcher: @escaping @Sendable (Event) -> Void = { _ in }) throws {
    self.path = path
    self.watcher = watcher
    try Data().write(to: URL(filePath: path))
    state = Mutex(State(file: try FileHandle(forWritingTo: URL(filePath: path))))
  }

  package var now: Moment { Moment(.now - begun) }

  /// Takes the time and writes the line in one step, so that times ascend.
  @discardableResult
  package func write(_ fact: Fact) -> Moment {
    state.withLock { state in
      let event = Event(at: now, fact)
      append(event, to: &state)
      return event.at
    }
  }

  package func saw(_ sight: Sight) { write(.saw(sight)) }

  /// Begins an operation.
  package func invoke(_ call: Call, by device: DeviceIndex, to place: Place) -> OperationNumber {
    state.withLock { state in
      state.operations += 1
      let operation = OperationNumber(state.operations)
      append(Event(at: now, .invoked(operation, call: call, by: device, to: place)), to: &state)
      return operation
    }
  }

  package func nextConnection() -> ConnectionNumber {
    state.withLock { state in
      state.connections += 1
      return ConnectionNumber(state.connections)
    }
  }

  /// Writes what has gathered, and closes the file.
  /// - Throws: the first failure of all; the history is not whole then.
  package func close() throws {
    try state.withLock { state in
      Self.flush(&state)
      try state.file?.close()
      state.file = nil
      if let failure = state.failure { throw failure }
    }
  }

  private func append(_ event: Event, to state: inout State) {
    watcher(event)
    do {
      state.buffer.append(try JSONEncoder().encode(event))
      state.buffer.append(UInt8(ascii: "\n"))
      state.lines += 1
    } catch {
      state.failure = state.failure ?? error
    }
    if state.buffer.count >= 256 << 10 { Self.flush(&state) }
  }

  private static func flush(_ state: inout State) {
    guard let file = state.file, !state.buffer.isEmpty else { return }
    do { try file.write(contentsOf: state.buffer) } catch { state.failure = state.failure ?? error }
    state.buffer.removeAll(keepingCapacity: true)
  }
}

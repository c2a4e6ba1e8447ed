import Foundation
import Synchronization

/// Holds threads until it is opened.
package final class BlockingGate: Sendable {
  private let isOpen = Mutex(false)
  private let changed = NSCondition()

  package init() {}

  package func open() {
    isOpen.withLock { $0 = true }
    changed.withLock { changed.broadcast() }
  }

  package func wait() {
    changed.withLock {
      while !isOpen.withLock({ $0 }) { changed.wait() }
    }
  }
}

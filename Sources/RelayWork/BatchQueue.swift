package import DequeModule

/// What waits for the next batch while one is under way: which items are let in, and which go together. Items keep the order
/// in which they came.
///
/// A value without lock or task: its owner keeps it under a lock of its own, runs a batch whenever an item is the first,
/// and asks for the next until there is none.
package struct BatchQueue<Item> {
  /// - `items` counts, `bytes` weighs.
  package struct Size: Sendable, Equatable {
    package var items: Int
    package var bytes: Int

    @inlinable
    package init(items: Int, bytes: Int = 0) {
      self.items = items
      self.bytes = bytes
    }

    @inlinable
    package static func + (a: Self, b: Self) -> Self { Self(items: a.items + b.items, bytes: a.bytes + b.bytes) }
    @inlinable
    package static func - (a: Self, b: Self) -> Self { Self(items: a.items - b.items, bytes: a.bytes - b.bytes) }
    @inlinable
    package func fits(_ bound: Self) -> Bool { items <= bound.items && bytes <= bound.bytes }
  }

  package struct Bounds: Sendable {
    /// Of one batch, unless a single item is larger.
    package var batch: Size
    /// Of all that waits.
    package var waiting: Size
    /// Whether the batch under way counts among what waits.
    package var countsUnderWay: Bool

    @inlinable
    package init(batch: Size, waiting: Size, countsUnderWay: Bool = false) {
      self.batch = batch
      self.waiting = waiting
      self.countsUnderWay = countsUnderWay
    }
  }

  package enum Admission: Sendable {
    /// Not let in.
    case full
    /// A batch is under way: this goes with a later one.
    case waits
    /// Nothing is under way: the caller runs batches until `next` has none.
    case isFirst
  }

  @usableFromInline let bounds: Bounds
  @usableFromInline let size: @Sendable (Item) -> Size
  @usableFromInline var items: Deque<Item> = []
  @usableFromInline var waitingSize = Size(items: 0)
  @usableFromInline var underWaySize = Size(items: 0)
  @usableFromInline var isUnderWay = false

  /// - Parameter size: of an item; asked twice.
  @inlinable
  package init(bounds: Bounds, size: @escaping @Sendable (Item) -> Size) {
    self.bounds = bounds
    self.size = size
  }

  /// Of what waits behind the batch under way.
  @inlinable package var waiting: Size { waitingSize }
  /// Whether nothing waits and nothing is under way.
  @inlinable package var isIdle: Bool { !isUnderWay }

  /// Lets `item` in where there is room. One that comes when nothing waits and nothing is under way is let in however
  /// large it is: it never could be otherwise.
  @inlinable
  package mutating func admit(_ item: Item) -> Admission {
    let size = size(item)
    guard !isUnderWay || (held + size).fits(bounds.waiting) else { return .full }
    items.append(item)
    waitingSize = waitingSize + size
    defer { isUnderWay = true }
    return isUnderWay ? .waits : .isFirst
  }

  /// The batch before is over.
  /// - Returns: the items of the next one, at least one; nil when nothing waits: the next to come is then the first.
  @inlinable
  package mutating func next() -> [Item]? {
    underWaySize = Size(items: 0)
    var batch: [Item] = []
    while let item = items.first {
      let size = size(item)
      guard batch.isEmpty || (underWaySize + size).fits(bounds.batch) else { break }
      underWaySize = underWaySize + size
      batch.append(item)
      items.removeFirst()
    }
    waitingSize = waitingSize - underWaySize
    isUnderWay = !batch.isEmpty
    return batch.isEmpty ? nil : batch
  }

  /// Takes the first item out that waits and of which `condition` holds.
  /// - Returns: whether there was one.
  package mutating func remove(where condition: (Item) -> Bool) -> Bool {
    guard let index = items.firstIndex(where: condition) else { return false }
    waitingSize = waitingSize - size(items.remove(at: index))
    return true
  }

  @inlinable var held: Size { bounds.countsUnderWay ? waitingSize + underWaySize : waitingSize }
}

extension BatchQueue: Sendable where Item: Sendable {}

public import DequeModule

/// Items that wait for the next batch while one is under way: the queue says which are let in, and which go together.
/// Items keep the order in which they came.
///
/// A value without lock or task: its owner keeps it under a lock of its own, runs a batch whenever an item is the
/// first, and asks for the next until there is none.
public struct BatchQueue<Item> {
  /// - `items` counts, `bytes` weighs.
  public struct Size: Sendable, Equatable {
    public var items: Int
    public var bytes: Int

    @inlinable
    public init(items: Int, bytes: Int = 0) {
      self.items = items
      self.bytes = bytes
    }

    @inlinable
    public static func + (a: Self, b: Self) -> Self { Self(items: a.items + b.items, bytes: a.bytes + b.bytes) }
    @inlinable
    public static func - (a: Self, b: Self) -> Self { Self(items: a.items - b.items, bytes: a.bytes - b.bytes) }
    @inlinable
    public func fits(_ bound: Self) -> Bool { items <= bound.items && bytes <= bound.bytes }
  }

  public struct Bounds: Sendable {
    /// The size of one batch, unless a single item is larger.
    public var batch: Size
    /// The size of all that waits.
    public var waiting: Size
    /// Whether the batch under way counts among what waits.
    public var countsUnderWay: Bool

    @inlinable
    public init(batch: Size, waiting: Size, countsUnderWay: Bool = false) {
      self.batch = batch
      self.waiting = waiting
      self.countsUnderWay = countsUnderWay
    }
  }

  public enum Admission: Sendable {
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
  public init(bounds: Bounds, size: @escaping @Sendable (Item) -> Size) {
    self.bounds = bounds
    self.size = size
  }

  /// The size of all that waits behind the batch under way.
  @inlinable public var waiting: Size { waitingSize }
  /// Whether nothing waits and nothing is under way.
  @inlinable public var isIdle: Bool { !isUnderWay }

  /// Lets `item` in where there is room. One that finds nothing waiting is let in however large it is: it never could
  /// be otherwise.
  @inlinable
  public mutating func admit(_ item: Item) -> Admission {
    guard let admission = begin(size(item)) else { return .full }
    items.append(item)
    return admission
  }

  /// As one item: lets all of them in or none. They may go with different batches.
  /// - Parameter new: at least one.
  @inlinable
  public mutating func admit(contentsOf new: [Item]) -> Admission {
    var added = Size(items: 0)
    for item in new { added = added + size(item) }
    guard let admission = begin(added) else { return .full }
    items.append(contentsOf: new)
    return admission
  }

  /// - Returns: nil when there is no room.
  @inlinable
  mutating func begin(_ added: Size) -> Admission? {
    guard held.items == 0 || (held + added).fits(bounds.waiting) else { return nil }
    waitingSize = waitingSize + added
    defer { isUnderWay = true }
    return isUnderWay ? .waits : .isFirst
  }

  /// The batch before is over.
  /// - Returns: the items of the next one, at least one; nil when nothing waits: the next to come is then the first.
  @inlinable
  public mutating func next() -> [Item]? {
    underWaySize = Size(items: 0)
    var batch: [Item] = []
    while let item = items.first {
      let grown = underWaySize + size(item)
      guard batch.isEmpty || grown.fits(bounds.batch) else { break }
      underWaySize = grown
      batch.append(item)
      items.removeFirst()
    }
    waitingSize = waitingSize - underWaySize
    isUnderWay = !batch.isEmpty
    return batch.isEmpty ? nil : batch
  }

  /// Takes the first item out that waits and of which `condition` holds.
  /// - Returns: whether there was one.
  public mutating func remove(where condition: (Item) -> Bool) -> Bool {
    guard let index = items.firstIndex(where: condition) else { return false }
    waitingSize = waitingSize - size(items.remove(at: index))
    return true
  }

  @inlinable var held: Size { bounds.countsUnderWay ? waitingSize + underWaySize : waitingSize }
}

extension BatchQueue: Sendable where Item: Sendable {}

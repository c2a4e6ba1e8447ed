import DequeModule

/// One of a provider's destinations, as a message found it.
package struct PushDestination: Sendable, Hashable {
  package let name: String
  /// Whether it answered the last attempt, within the hour. Strangers may name push services, as many as they like,
  /// and all of them silent: those that have not shown themselves share a part of the lane.
  package let isProven: Bool

  package init(_ name: String, isProven: Bool) {
    self.name = name
    self.isProven = isProven
  }
}

/// Decides which messages may be sent now, and which wait. A fixed number of workers serves the destinations in turn,
/// so that a slow one leaves some workers to the others.
package struct PushTurns: Sendable {
  package typealias Ticket = UInt64

  package struct Limits: Sendable {
    var workersMax: Int
    /// Workers of one destination.
    var destinationWorkersMax: Int
    var heldMax: Int
    var heldBytesMax: Int
    /// The part of `heldMax` that one destination may have.
    var destinationHeldMax = Int.max
    /// Workers of all destinations together that are not proven, and the part of `heldMax` that they may have.
    var unprovenWorkersMax = Int.max
    var unprovenHeldMax = Int.max

    init(
      workersMax: Int, destinationWorkersMax: Int, heldMax: Int, heldBytesMax: Int, destinationHeldMax: Int = .max
    ) {
      self.workersMax = workersMax
      self.destinationWorkersMax = destinationWorkersMax
      self.heldMax = heldMax
      self.heldBytesMax = heldBytesMax
      self.destinationHeldMax = destinationHeldMax
    }

    /// The bounds of a lane.
    package init(_ limits: PushLaneLimits) {
      self.init(
        workersMax: limits.workersMax, destinationWorkersMax: limits.destinationWorkersMax, heldMax: limits.heldMax,
        heldBytesMax: limits.heldBytesMax, destinationHeldMax: limits.destinationHeldMax ?? limits.heldMax)
      unprovenWorkersMax = limits.unprovenWorkersMax ?? limits.workersMax
      unprovenHeldMax = limits.unprovenHeldMax ?? limits.heldMax
    }
  }

  private let limits: Limits
  package private(set) var held = 0
  private(set) var heldBytes = 0
  private var heldUnproven = 0
  private var heldFor: [String: Int] = [:]
  package private(set) var working = 0
  private var workingUnproven = 0
  private var workingFor: [String: Int] = [:]
  private var waiting: [PushDestination: Deque<Ticket>] = [:]
  /// The keys of `waiting`, each once.
  private var order: Deque<PushDestination> = []

  package init(_ limits: Limits) { self.limits = limits }

  /// A message comes in. - Returns: false when there is no room for it.
  package mutating func admit(bytes: Int, for destination: PushDestination) -> Bool {
    guard held < limits.heldMax, heldBytes + bytes <= limits.heldBytesMax,
      heldFor[destination.name, default: 0] < limits.destinationHeldMax,
      destination.isProven || heldUnproven < limits.unprovenHeldMax
    else { return false }
    held += 1
    if !destination.isProven { heldUnproven += 1 }
    heldBytes += bytes
    heldFor[destination.name, default: 0] += 1
    return true
  }

  /// It has left, whatever became of it.
  package mutating func dismiss(bytes: Int, for destination: PushDestination) {
    held -= 1
    if !destination.isProven { heldUnproven -= 1 }
    heldBytes -= bytes
    let left = (heldFor[destination.name] ?? 1) - 1
    heldFor[destination.name] = left > 0 ? left : nil
  }

  /// Whether whoever enters now need not wait.
  func isFree(for destination: PushDestination) -> Bool {
    working < limits.workersMax && hasRoom(destination) && waiting[destination] == nil
  }

  /// - Returns: whether it is `ticket`'s turn at once; else it waits.
  package mutating func enter(_ ticket: Ticket, for destination: PushDestination) -> Bool {
    if isFree(for: destination) {
      begin(destination)
      return true
    }
    if waiting[destination] == nil { order.append(destination) }
    waiting[destination, default: []].append(ticket)
    return false
  }

  /// A worker for `destination` is free again. - Returns: whose turn it is now.
  package mutating func leave(_ destination: PushDestination) -> [Ticket] {
    working -= 1
    if !destination.isProven { workingUnproven -= 1 }
    let left = (workingFor[destination.name] ?? 1) - 1
    workingFor[destination.name] = left > 0 ? left : nil
    // Two kinds of room may have become free: that of its destination, and that of all that are not proven.
    return [next(), next()].compactMap(\.self)
  }

  /// `ticket` waits no more. - Returns: false when it did not wait.
  mutating func withdraw(_ ticket: Ticket, for destination: PushDestination) -> Bool {
    guard let place = waiting[destination]?.firstIndex(of: ticket) else { return false }
    waiting[destination]?.remove(at: place)
    forgetIfEmpty(destination)
    return true
  }

  private mutating func next() -> Ticket? {
    guard working < limits.workersMax else { return nil }
    for _ in 0..<order.count {
      guard let destination = order.popFirst() else { return nil }
      order.append(destination)
      guard hasRoom(destination), let ticket = waiting[destination]?.popFirst() else { continue }
      forgetIfEmpty(destination)
      begin(destination)
      return ticket
    }
    return nil
  }

  private func hasRoom(_ destination: PushDestination) -> Bool {
    workingFor[destination.name, default: 0] < limits.destinationWorkersMax
      && (destination.isProven || workingUnproven < limits.unprovenWorkersMax)
  }

  private mutating func begin(_ destination: PushDestination) {
    working += 1
    if !destination.isProven { workingUnproven += 1 }
    workingFor[destination.name, default: 0] += 1
  }

  private mutating func forgetIfEmpty(_ destination: PushDestination) {
    guard waiting[destination]?.isEmpty == true else { return }
    waiting[destination] = nil
    if let place = order.firstIndex(of: destination) { order.remove(at: place) }
  }
}

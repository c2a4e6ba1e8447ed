import DequeModule
import Metrics
import NIOCore
package import RelayCore
import RelayMetrics
import Synchronization

/// Keeps one client address from filling a listener: each has a share of its places at most.
///
/// A connection counts from its acceptance until it ends, or becomes a WebSocket: those have their own bounds. If an
/// address has used up its share, its connection that has waited longest for its first request gives way. If all of
/// them have sent one, the new connection is closed. A trusted proxy has to bound the connections that it passes on.
package final class ConnectionShares: Sendable {
  /// A connection holds its place until it gives it back.
  struct Place: Sendable {
    fileprivate let id: UInt64
    /// nil for whom there is no bound.
    fileprivate let customer: [UInt8]?
  }

  private struct Customer {
    var count = 0
    /// Connections that have sent no request yet, by id.
    var waiting: [UInt64: any Channel] = [:]
    /// Their ids as they came, among them those of others that wait no more.
    var order: Deque<UInt64> = []

    mutating func began(_ id: UInt64, _ channel: any Channel) {
      count += 1
      waiting[id] = channel
      order.append(id)
      if order.count > 2 * waiting.count + 16 { order.removeAll { waiting[$0] == nil } }
    }

    /// - Returns: nil when none waits.
    mutating func removeLongestWaiting() -> (id: UInt64, channel: any Channel)? {
      while let id = order.popFirst() {
        if let channel = waiting.removeValue(forKey: id) { return (id, channel) }
      }
      return nil
    }
  }

  private struct State {
    var customers: [[UInt8]: Customer] = [:]
    /// By whether they have sent a request.
    var counts = (waiting: 0, serving: 0)
    /// Ids of connections that have sent no request yet, of every address.
    var waiting: Set<UInt64> = []
    var nextID: UInt64 = 0
  }

  private let share: Int
  private let proxies: [AddressRange]
  private let state = Mutex(State())
  private let waiting: Gauge
  private let serving: Gauge
  private let refused: Counter
  private let displaced: Counter

  /// - Parameters:
  ///   - share: connections of one address, an IPv6 /64; 1 or more.
  ///   - proxies: whose connections are not bounded.
  package init(share: Int, proxies: [AddressRange]) {
    self.share = share
    self.proxies = proxies
    waiting = RelayMetric.clientConnections.open.gauge(.waiting)
    serving = RelayMetric.clientConnections.open.gauge(.serving)
    refused = RelayMetric.clientConnections.refused.counter(.share)
    displaced = RelayMetric.clientConnections.refused.counter(.displaced)
    for gauge in [waiting, serving] { gauge.record(0) }
  }

  /// - Returns: nil when `channel` is to be closed.
  func take(for channel: any Channel) -> Place? {
    let address = channel.remoteAddress.flatMap(ClientAddress.init)
    let customer = address.flatMap { address in
      proxies.contains { $0.contains(address) } ? nil : Array(address.customer)
    }
    let (place, loser) = state.withLock { state -> (Place?, (any Channel)?) in
      var loser: (any Channel)?
      let id = state.nextID
      if let customer {
        var places = state.customers[customer] ?? Customer()
        if places.count >= share {
          guard let longest = places.removeLongestWaiting() else { return (nil, nil) }
          // Its place is given back now, and not again when it has closed.
          places.count -= 1
          state.waiting.remove(longest.id)
          state.counts.waiting -= 1
          loser = longest.channel
        }
        places.began(id, channel)
        state.customers[customer] = places
      }
      state.nextID += 1
      state.waiting.insert(id)
      state.counts.waiting += 1
      return (Place(id: id, customer: customer), loser)
    }
    if place == nil { refused.increment() }
    if let loser {
      displaced.increment()
      loser.close(promise: nil)
    }
    show()
    return place
  }

  /// The connection has sent its first request.
  /// - Returns: false when it has lost its place meanwhile.
  func requestCame(_ place: Place) -> Bool {
    let isHeld = state.withLock { state in
      guard state.waiting.remove(place.id) != nil else { return false }
      state.counts.waiting -= 1
      state.counts.serving += 1
      if let customer = place.customer { state.customers[customer]?.waiting[place.id] = nil }
      return true
    }
    show()
    return isHeld
  }

  /// Once for each place.
  /// - Parameter wasServing: what `requestCame` returned.
  func giveBack(_ place: Place, wasServing: Bool) {
    state.withLock { state in
      let isWaiting = state.waiting.remove(place.id) != nil
      // Displaced: given back already.
      guard isWaiting || wasServing else { return }
      if isWaiting { state.counts.waiting -= 1 } else { state.counts.serving -= 1 }
      guard let customer = place.customer else { return }
      state.customers[customer]?.waiting[place.id] = nil
      state.customers[customer]?.count -= 1
      if state.customers[customer]?.count == 0 { state.customers[customer] = nil }
    }
    show()
  }

  private func show() {
    let counts = state.withLock { $0.counts }
    waiting.record(counts.waiting)
    serving.record(counts.serving)
  }
}

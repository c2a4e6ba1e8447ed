import RelayCore

extension RedisReply {
  /// The host of a node whose name is not known (`cluster-preferred-endpoint-type`).
  fileprivate static let nameless = "?"
}

/// A node's word that a slot, or a key of it, is elsewhere.
struct RedisRedirection: Sendable, Equatable {
  let slot: Int
  /// nil for the host that was asked.
  let host: String?
  /// The node that was asked does not know the name of the other one yet.
  let isNameless: Bool
  let port: Int
  /// The slot is on its way, and only this command is to go there, behind `ASKING` (`ASK`). Else the slot is there
  /// (`MOVED`).
  let isForOnce: Bool

  /// - Parameter error: `MOVED SLOT HOST:PORT`, or the same with `ASK`.
  init?(_ error: String) {
    let words = error.split(separator: " ")
    guard words.count == 3, words[0] == "MOVED" || words[0] == "ASK", let slot = Int(words[1]),
      (0..<RedisSlot.count).contains(slot), let colon = words[2].lastIndex(of: ":"),
      let port = Int(words[2][words[2].index(after: colon)...]), (1...65_535).contains(port)
    else { return nil }
    let host = String(words[2][..<colon])
    self.slot = slot
    isNameless = host == RedisReply.nameless
    self.host = host.isEmpty ? nil : host
    self.port = port
    isForOnce = words[0] == "ASK"
  }

  /// - Parameter asked: the node that said so.
  func address(by asked: RedisEndpoint.Address) -> RedisEndpoint.Address {
    .tcp(host: host ?? asked.host, port: port)
  }
}

extension RedisEndpoint.Address {
  /// Empty for a Unix socket.
  fileprivate var host: String { if case .tcp(let host, _) = self { host } else { "" } }
}

/// The nodes of a cluster that take writes, and the slots of each.
struct SlotMap: Sendable, Equatable {
  private(set) var nodes: [RedisEndpoint.Address] = []
  /// By slot: the place of its node in `nodes`; `nobody` for none.
  private var owners = [UInt16](repeating: nobody, count: RedisSlot.count)
  private static let nobody = UInt16.max

  /// - Parameters:
  ///   - reply: to `CLUSTER SLOTS`: of each range its first and last slot, its primary, and the replicas.
  ///   - asked: the node that gave it.
  /// - Returns: nil for an answer that no node gives.
  init?(_ reply: RedisReply, by asked: RedisEndpoint.Address) {
    guard case .array(let ranges) = reply else { return nil }
    for range in ranges {
      guard case .array(let parts) = range, parts.count >= 3, case .integer(let first) = parts[0],
        case .integer(let last) = parts[1], case .array(let primary) = parts[2], primary.count >= 2,
        case .integer(let port) = primary[1], (1...65_535).contains(port), 0 <= first, first <= last,
        last < Int64(RedisSlot.count)
      else { return nil }
      guard let host = Self.host(of: primary, by: asked) else { continue }
      let place = place(of: .tcp(host: host, port: Int(port)))
      for slot in Int(first)...Int(last) { owners[slot] = place }
    }
  }

  /// A node is known by the name that it announces, and by its address while that has not got around.
  /// - Returns: nil while nothing is known.
  private static func host(of node: [RedisReply], by asked: RedisEndpoint.Address) -> String? {
    guard let name = node[0].name else { return asked.host }
    guard name == RedisReply.nameless else { return name }
    guard node.count > 3, case .array(let more) = node[3],
      let place = more.firstIndex(where: { $0.name == "ip" }), place + 1 < more.count
    else { return nil }
    return more[place + 1].name
  }

  /// nil for a slot that nobody has.
  func node(of slot: Int) -> RedisEndpoint.Address? {
    let place = owners[slot]
    return place == Self.nobody ? nil : nodes[Int(place)]
  }

  /// A node has said where `slot` is.
  mutating func move(_ slot: Int, to address: RedisEndpoint.Address) { owners[slot] = place(of: address) }

  /// Slots that nobody has.
  var missing: Int { owners.count { $0 == Self.nobody } }

  private mutating func place(of address: RedisEndpoint.Address) -> UInt16 {
    if let place = nodes.firstIndex(of: address) { return UInt16(place) }
    // A range has a node, and there are fewer ranges than places.
    nodes.append(address)
    return UInt16(nodes.count - 1)
  }
}

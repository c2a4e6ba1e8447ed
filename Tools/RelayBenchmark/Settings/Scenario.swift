import ArgumentParser

/// A measurement of the servers as a whole.
enum Scenario: String, CaseIterable, ExpressibleByArgument, Sendable, Encodable {
  case messagesLocal = "messages-local"
  case messagesFederated = "messages-federated"
  case messagesUnnamed = "messages-unnamed"
  case prekeysLocal = "prekeys-local"
  case prekeysFederated = "prekeys-federated"
  case prekeysUnnamed = "prekeys-unnamed"
  case messagesLocalPaced = "messages-local-paced"
  case messagesFederatedPaced = "messages-federated-paced"
  case deliveries
  case deliveriesAcross = "deliveries-across"
  case deliveriesSocket = "deliveries-socket"
  case deliveriesPaced = "deliveries-paced"
  case deliveriesAcrossPaced = "deliveries-across-paced"
  case directory1000 = "directory-1000"
  case directory5000 = "directory-5000"

  var title: String {
    switch self {
    case .messagesLocal: "messages accepted, local"
    case .messagesFederated: "messages accepted, stored at the peer"
    case .messagesUnnamed: "the same, and the client names no relay"
    case .prekeysLocal: "prekeys drawn, local"
    case .prekeysFederated: "prekeys drawn from the peer"
    case .prekeysUnnamed: "the same, and the client names no relay"
    case .messagesLocalPaced: "messages at a steady pace, local"
    case .messagesFederatedPaced: "messages at a steady pace, stored at the peer"
    case .deliveries: "messages delivered, one process"
    case .deliveriesAcross: "messages delivered, across two processes"
    case .deliveriesSocket: "messages delivered, submitted over WebSockets"
    case .deliveriesPaced: "messages delivered at a steady pace, one process"
    case .deliveriesAcrossPaced: "messages delivered at a steady pace, across two processes"
    case .directory1000: "look-ups of 1,000 contacts"
    case .directory5000: "look-ups of 5,000 contacts"
    }
  }

  /// The subject of the measurement.
  enum Subject: Sendable {
    /// Messages for devices that are not connected: measured to the answer.
    case messages
    case prekeys
    /// Messages for devices that are connected: measured to their acknowledgement.
    case deliveries
    /// Whole address books, asked for again and again.
    case lookUps
  }

  var subject: Subject {
    switch self {
    case .messagesLocal, .messagesFederated, .messagesUnnamed, .messagesLocalPaced, .messagesFederatedPaced: .messages
    case .prekeysLocal, .prekeysFederated, .prekeysUnnamed: .prekeys
    case .deliveries, .deliveriesAcross, .deliveriesSocket, .deliveriesPaced, .deliveriesAcrossPaced: .deliveries
    case .directory1000, .directory5000: .lookUps
    }
  }

  /// Contact tokens of one request; 0 where none are asked for.
  var tokensPerRequest: Int {
    switch self {
    case .directory1000: 1000
    case .directory5000: 5000
    default: 0
    }
  }

  var isFederated: Bool {
    namesNoRelay || [.messagesFederated, .prekeysFederated, .messagesFederatedPaced].contains(self)
  }
  /// Whether alpha finds the recipients' operator by itself.
  var namesNoRelay: Bool { [.messagesUnnamed, .prekeysUnnamed].contains(self) }
  /// Whether the recipients are connected to another process of the operator than the senders.
  var isAcross: Bool { [.deliveriesAcross, .deliveriesAcrossPaced].contains(self) }
  /// Whether the senders submit over their WebSockets.
  var isOverSocket: Bool { self == .deliveriesSocket }

  /// Whether requests fall due at each of `BenchmarkSettings.pacesPerSecond`, in an open loop.
  var isPaced: Bool {
    [.messagesLocalPaced, .messagesFederatedPaced, .deliveriesPaced, .deliveriesAcrossPaced].contains(self)
  }

  /// The table whose rows the scenario changes, at the operator where the recipients live. Look-ups change none.
  var table: String { subject == .prekeys ? "one_time_prekeys" : "messages" }
}

/// One window of measuring.
struct Measurement: Sendable {
  let scenario: Scenario
  /// Requests a second that fall due in an open loop; nil for a closed one.
  let pacePerSecond: Int?

  init(_ scenario: Scenario, pacePerSecond: Int? = nil) {
    self.scenario = scenario
    self.pacePerSecond = pacePerSecond
  }

  /// A scenario in an open loop is measured at each of `paces`.
  static func all(of scenarios: [Scenario], at paces: [Int]) -> [Measurement] {
    scenarios.flatMap { scenario in
      scenario.isPaced ? paces.map { Measurement(scenario, pacePerSecond: $0) } : [Measurement(scenario)]
    }
  }

  var title: String { pacePerSecond.map { "\(scenario.title), \($0)/s" } ?? scenario.title }
  /// For progress and failures.
  var name: String { pacePerSecond.map { "\(scenario.rawValue) at \($0)/s" } ?? scenario.rawValue }
}

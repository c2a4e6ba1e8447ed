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

  /// Whether requests fall due at `BenchmarkSettings.pacePerSecond`, in an open loop.
  var isPaced: Bool {
    [.messagesLocalPaced, .messagesFederatedPaced, .deliveriesPaced, .deliveriesAcrossPaced].contains(self)
  }

  /// CPU seconds per 1,000, all server processes counted, that we want to stay below; nil where nothing is laid down.
  var aim: Double? {
    switch self {
    case .messagesLocal: 0.15
    case .messagesFederated, .messagesUnnamed: 0.25
    case .deliveries, .deliveriesAcross, .deliveriesSocket: 0.20
    // Five million tokens a CPU second.
    case .directory1000, .directory5000: Double(tokensPerRequest) * 1000 / 5e6
    case .prekeysLocal, .prekeysFederated, .prekeysUnnamed, .messagesLocalPaced, .messagesFederatedPaced,
      .deliveriesPaced, .deliveriesAcrossPaced:
      nil
    }
  }

  /// The table whose rows the scenario changes, at the operator where the recipients live. Look-ups change none.
  var table: String { subject == .prekeys ? "one_time_prekeys" : "messages" }
}

/// How much of everything.
struct BenchmarkSettings: Sendable, Encodable {
  var connections = 64
  /// Accounts at each operator that messages go to and prekeys are drawn from.
  var recipients = 200
  /// One-time prekeys of each of them, as many as one upload takes; when they are used up the last resort is drawn.
  var keysEach = 1000
  /// A message's body, before base64.
  var bodyBytes = 1024
  var warmUpSeconds = 2.0
  var seconds = 10.0
  var rowsPerStatement = 100
  /// Requests a second of the scenarios in an open loop.
  var pacePerSecond = 1000
  /// Devices that are connected and do nothing.
  var idleConnections = 10_000
  /// Sizes of the table in process, one after the other.
  var tableEntries = [1_000_000, 10_000_000, 100_000_000]
  /// Queries of each round there, and rounds; the median counts.
  var tableQueries = 2_000_000
  var tableRounds = 25
  /// Contacts of the directories that a relay is started with, ascending.
  var directoryEntries = [1_000_000]
  /// Starts of each kind; the median counts.
  var directoryStarts = 3
  /// How often it is measured when a registration is seen elsewhere.
  var registrations = 20
}

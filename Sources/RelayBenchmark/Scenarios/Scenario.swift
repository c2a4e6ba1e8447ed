import ArgumentParser

/// What is measured of the servers as a whole.
enum Scenario: String, CaseIterable, ExpressibleByArgument, Sendable, Encodable {
  case messagesLocal = "messages-local"
  case messagesFederated = "messages-federated"
  case prekeysLocal = "prekeys-local"
  case prekeysFederated = "prekeys-federated"
  case messagesLocalPaced = "messages-local-paced"
  case messagesFederatedPaced = "messages-federated-paced"

  var title: String {
    switch self {
    case .messagesLocal: "messages accepted, local"
    case .messagesFederated: "messages accepted, stored at the peer"
    case .prekeysLocal: "prekeys drawn, local"
    case .prekeysFederated: "prekeys drawn from the peer"
    case .messagesLocalPaced: "messages at a steady pace, local"
    case .messagesFederatedPaced: "messages at a steady pace, stored at the peer"
    }
  }

  var isFederated: Bool {
    switch self {
    case .messagesFederated, .prekeysFederated, .messagesFederatedPaced: true
    case .messagesLocal, .prekeysLocal, .messagesLocalPaced: false
    }
  }

  /// Whether requests fall due at `BenchmarkSettings.pacePerSecond`, in an open loop.
  var isPaced: Bool { self == .messagesLocalPaced || self == .messagesFederatedPaced }

  /// CPU seconds per 1,000, all server processes counted, that we want to stay below; nil where nothing is laid down.
  var aim: Double? {
    switch self {
    case .messagesLocal: 0.15
    case .messagesFederated: 0.25
    case .prekeysLocal, .prekeysFederated, .messagesLocalPaced, .messagesFederatedPaced: nil
    }
  }

  /// The table whose rows the scenario changes, at the operator where the recipients live.
  var table: String {
    switch self {
    case .messagesLocal, .messagesFederated, .messagesLocalPaced, .messagesFederatedPaced: "messages"
    case .prekeysLocal, .prekeysFederated: "one_time_prekeys"
    }
  }
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
}

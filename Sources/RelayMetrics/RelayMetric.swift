/// The table of all metrics of a relay. No metric of ours has its name anywhere else: code that records one takes it
/// from here, and so do the HELP and TYPE lines, the dashboard and `relay top`. Tests compare docs/metrics.md and the
/// alerts with it.
///
/// A new metric needs a line in a section, a row in docs/metrics.md, and code in the section's folder that records it.
package enum RelayMetric {
  package static let requests = Requests()
  package static let clientConnections = ClientConnections()
  package static let codes = Codes()
  package static let keys = Keys()
  package static let live = Live()
  package static let receipts = Receipts()
  package static let attachments = Attachments()
  package static let directory = Directory()
  package static let parts = Parts()
  package static let oblivious = Oblivious()
  package static let enumeration = Enumeration()
  package static let peerEdge = PeerEdge()
  package static let peers = Peers()
  package static let contacts = Contacts()
  package static let outbox = Outbox()
  package static let crossings = Crossings()
  package static let certificates = Certificates()
  package static let wakes = Wakes()
  package static let push = Push()
  package static let notifications = Notifications()
  package static let gateway = Gateway()
  package static let apnsLane = GatewayLane("apns", of: "APNs")
  package static let fcmLane = GatewayLane("gcm", of: "FCM")
  package static let webPushLane = GatewayLane("webpush", of: "push services of browsers")
  package static let store = Store()
  package static let roles = Roles()
  package static let coordination = Coordination()
  package static let registry = Registry()
  package static let process = Process()

  package static let sections: [any MetricSection] = [
    requests, clientConnections, codes, keys, live, receipts, attachments, directory, parts, oblivious, enumeration,
    peerEdge,
    peers, contacts, outbox, crossings, certificates, wakes, push, notifications, gateway, apnsLane, fcmLane,
    webPushLane, store, roles, coordination, registry, process,
  ]

  package static let all: [any Metric] = sections.flatMap(\.metrics)

  /// By name, as the page of metrics asks for them.
  package static let byName: [String: any Metric] = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })
}

/// Metrics that one folder records.
package protocol MetricSection: Sendable {
  /// The heading in docs/metrics.md.
  static var title: String { get }
  /// The folder below Sources/ that records them; no other does.
  static var owner: String { get }
}

extension MetricSection {
  /// All stored properties that are metrics, in their order.
  package var metrics: [any Metric] { Mirror(reflecting: self).children.compactMap { $0.value as? any Metric } }
}

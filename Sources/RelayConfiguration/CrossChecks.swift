// Checks that look at more than one key.

import RelayCore

extension RelayConfiguration {
  func crossCheck(_ reader: inout ConfigurationReader) {
    checkExposure(&reader)
    checkListeners(&reader)
    checkReach(&reader)
    checkProcesses(&reader)
    checkPartition(&reader)
    // Elsewhere `checkExposure` says it, unless that is allowed.
    let isSaid = !PublicAddress.isLoopback(client.host) && !allowedInsecurities.contains(.development)
    if development.isEnabled, !isSaid {
      reader.warn(
        "development.enabled is true: anyone can register any number; never do this where people are",
        at: "development.enabled")
    }
    checkIdleSenders(&reader)
  }

  /// Two listeners cannot share a port. One that this process leaves to others has none here.
  private func checkListeners(_ reader: inout ConfigurationReader) {
    let listeners: [(key: String, host: String, port: Int?)] = [
      ("client.port", client.host, listensToClients ? client.port : nil),
      ("operator.port", operations.host, operations.port),
      ("federation.port", federation.host, roles.has(.peers) ? federation.port : nil),
      ("push-gateway.port", pushGateway.host, roles.has(.push) ? pushGateway.port : nil),
      ("device-notifications.port", deviceNotifications.host, roles.has(.push) ? deviceNotifications.port : nil),
      ("directory.port", directory.host, directory.partition == nil ? nil : directory.port),
    ]
    for (index, listener) in listeners.enumerated() {
      guard let port = listener.port, port != 0 else { continue }
      for other in listeners[..<index] where other.port == port && other.host == listener.host {
        let cause = reader.isGiven(listener.key) ? listener.key : other.key
        reader.fault("\(listener.key) and \(other.key) are both \(port) on \(other.host)", at: cause)
      }
    }
  }

  /// Peers must get to where the listener is.
  private func checkReach(_ reader: inout ConfigurationReader) {
    guard federation.port != nil, let url = federation.url else { return }
    let isOpen = !PublicAddress.isLoopback(federation.host)
    if PublicAddress.isLoopback(url.host), isOpen {
      reader.warn(
        "federation.url names \(url.host): only peers on this host reach it", at: "federation.url")
    } else if !PublicAddress.isLoopback(url.host), !isOpen {
      reader.warn(
        "federation.host is \(federation.host), and federation.url names \(url.host): peers reach this relay only where "
          + "something on this host passes their connections on; else remove federation.host",
        at: "federation.host")
    }
  }

  private func checkProcesses(_ reader: inout ConfigurationReader) {
    if roles.names == [Role.peers.rawValue] {
      reader.miss("federation.port", because: "roles is peers alone", of: "roles")
    }
    if case .postgres = storage.location, coordination.location == .local {
      reader.warn(
        "storage.url is PostgreSQL while coordination.url is local: right for one process only; several need Redis",
        at: "storage.url")
    }
    if case .sqlite = storage.location, roles != .all {
      reader.warn(
        "roles leaves \(roles.missing.joined(separator: ", ")) to other processes, and embedded stores serve one process "
          + "only: nothing does that part",
        at: "roles")
    }
  }

  /// A part is for other processes to ask, and whoever asks has no directory of its own.
  private func checkPartition(_ reader: inout ConfigurationReader) {
    if let partition = directory.partition {
      if !roles.has(.directory) || roles.has(.clients) {
        reader.fault(
          "directory.partition is for a process that has the role directory and leaves clients to others: "
            + "roles: [directory]",
          at: "directory.partition")
      }
      if case .sqlite = storage.location {
        reader.fault(
          "directory.partition needs PostgreSQL: embedded stores serve one process only", at: "directory.partition")
      }
      reader.miss("directory.port", because: "directory.partition is given", of: "directory.partition")
      if let count = directory.parts?.first?.part.count, count != partition.count {
        reader.fault(
          "directory.partition is \(partition.text), and directory.parts has \(count) parts", at: "directory.partition")
      }
    } else if roles.has(.directory), !reader.isGiven("directory.partition"), directory.parts != nil {
      reader.fault(
        "directory.parts is for processes without the role directory: this one holds all of it. "
          + "Leave the role out, or give directory.partition",
        at: "directory.parts")
    } else if roles.has(.directory), !reader.isGiven("directory.partition"), directory.port != nil {
      reader.fault(
        "directory.port is for a process that holds a part: give directory.partition, 1/1 for all of the directory",
        at: "directory.port")
    }
    if reader.isGiven("directory.tls.ca"), directory.parts?.allSatisfy({ !$0.url.isSecure }) ?? false {
      reader.fault("directory.tls.ca needs URLs of directory.parts to begin with https", at: "directory.tls.ca")
    }
  }

  /// Settings of a sender that is not the chosen one.
  private func checkIdleSenders(_ reader: inout ConfigurationReader) {
    let chosen: VerificationSender =
      switch verification.sender {
      case .log: .log
      case .webhook: .webhook
      case .twilio: .twilio
      }
    let senders: [(VerificationSender, String)] = [
      (.webhook, "verification.webhook.url"), (.twilio, "verification.twilio.account"),
    ]
    for (sender, key) in senders where sender != chosen && reader.isGiven(key) {
      reader.warn(
        "\(key) has no effect: verification.sender is \(chosen.rawValue), not \(sender.rawValue)", at: key)
    }
  }
}

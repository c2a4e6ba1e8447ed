// Checks that look at more than one key.

import RelayCore

extension RelayConfiguration {
  func crossCheck(_ reader: inout ConfigurationReader) {
    let allowed = checkExposure(&reader)
    checkListeners(&reader)
    checkReach(&reader)
    checkProcesses(&reader)
    // Elsewhere `checkExposure` says it, unless that is allowed.
    let isSaid = !PublicAddress.isLoopback(client.host) && !allowed.contains(.development)
    if development.isEnabled, !isSaid {
      reader.warn(
        "development.enabled is true: anyone can register any number; never do this where people are",
        at: Keys.developmentEnabled.key)
    }
    checkIdleSenders(&reader)
  }

  /// Two listeners cannot share a port.
  private func checkListeners(_ reader: inout ConfigurationReader) {
    let listeners: [(key: ConfigurationKey, host: String, port: Int?)] = [
      (Keys.clientPort.key, client.host, client.port),
      (Keys.operatorPort.key, operations.host, operations.port),
      (Keys.federationPort.key, federation.host, federation.port),
      (Keys.pushGatewayPort.key, pushGateway.host, pushGateway.port),
      (Keys.notificationPort.key, deviceNotifications.host, deviceNotifications.port),
    ]
    for (index, listener) in listeners.enumerated() {
      guard let port = listener.port, port != 0 else { continue }
      for other in listeners[..<index] where other.port == port && other.host == listener.host {
        let cause = reader.isGiven(listener.key) ? listener.key : other.key
        reader.fault("\(listener.key.name) and \(other.key.name) are both \(port) on \(other.host)", at: cause)
      }
    }
  }

  /// Peers must get to where the listener is.
  private func checkReach(_ reader: inout ConfigurationReader) {
    guard federation.port != nil, let url = federation.url else { return }
    let isOpen = !PublicAddress.isLoopback(federation.host)
    if PublicAddress.isLoopback(url.host), isOpen {
      reader.warn(
        "federation.url names \(url.host): only peers on this host reach it", at: Keys.federationURL.key)
    } else if !PublicAddress.isLoopback(url.host), !isOpen {
      reader.warn(
        "federation.host is \(federation.host), and federation.url names \(url.host): peers reach this relay only where "
          + "something on this host passes their connections on; else remove federation.host",
        at: Keys.federationHost.key)
    }
  }

  private func checkProcesses(_ reader: inout ConfigurationReader) {
    if case .postgres = storage.location, coordination.location == .local {
      reader.warn(
        "storage.url is PostgreSQL while coordination.url is local: right for one process only; several need Redis",
        at: Keys.storageURL.key)
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
    let senders: [(VerificationSender, ConfigurationKey)] = [
      (.webhook, Keys.webhookURL.key), (.twilio, Keys.twilioAccount.key),
    ]
    for (sender, key) in senders where sender != chosen && reader.isGiven(key) {
      reader.warn(
        "\(key.name) has no effect: verification.sender is \(chosen.rawValue), not \(sender.rawValue)", at: key)
    }
  }
}

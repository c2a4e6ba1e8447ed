import RelayCore

/// Settings that are refused where the internet may reach them, unless `allow-insecure` names them. At private
/// addresses they are warnings, on loopback they are free.
enum Insecurity: String, Sendable, CaseIterable {
  /// Passwords and messages cross the network in clear.
  case plainHTTP = "plain-http"
  /// Metrics and the state of the relay are there for whoever asks.
  case operatorListener = "operator-listener"
  /// Codes go to the log, and to nobody's telephone.
  case logSender = "log-sender"
  /// Anybody who asks gets the code of any number.
  case development
}

extension ValueType where Value == Set<Insecurity> {
  static let insecurities = ValueType(name: "names", isList: true) { text throws(Malformed) in
    if text == "none" { return [] }
    let names = text.split(separator: ",", omittingEmptySubsequences: false)
      .map { Insecurity(rawValue: String($0.trimmingPrefix { $0 == " " })) }
    guard !names.contains(nil) else {
      let all = Insecurity.allCases.map(\.rawValue).joined(separator: ", ")
      throw Malformed("`none`, or some of \(all), comma-separated")
    }
    return Set(names.compactMap(\.self))
  }
}

extension RelayConfiguration {
  /// Faults and warnings, unless the operator says that they are meant.
  func checkExposure(_ reader: inout ConfigurationReader) {
    for exposure in exposures where !allowedInsecurities.contains(exposure.insecurity) {
      let text = "\(exposure.text). \(exposure.remedy), or say so: allow-insecure: [\(exposure.insecurity.rawValue)]"
      if PublicAddress.isPrivate(exposure.host) {
        reader.warn(text, at: exposure.key)
      } else {
        reader.fault(text, at: exposure.key)
      }
    }
  }

  private typealias Exposure = (
    insecurity: Insecurity, host: String, key: String, text: String, remedy: String
  )

  private var exposures: [Exposure] {
    [plainClients, plainGateway, plainPart, plainQuestions, openOperations, loggedCodes, openDevelopment].compactMap(
      \.self)
  }

  private var areClientsExposed: Bool { !PublicAddress.isLoopback(client.host) }

  private var plainClients: Exposure? {
    guard areClientsExposed, client.tls == nil else { return nil }
    return (
      .plainHTTP, client.host, "client.host",
      "client.host is \(client.host), and there is no client.tls: passwords and messages would cross the network in clear",
      "Give client.tls.certificate and client.tls.key, or listen on 127.0.0.1 behind a proxy that has TLS"
    )
  }

  private var plainGateway: Exposure? {
    guard pushGateway.port != nil, !PublicAddress.isLoopback(pushGateway.host) else { return nil }
    return (
      .plainHTTP, pushGateway.host, "push-gateway.host",
      "push-gateway.host is \(pushGateway.host): what homeservers send would cross the network in clear",
      "Listen on 127.0.0.1 behind a proxy that has TLS"
    )
  }

  private var plainPart: Exposure? {
    guard directory.partition != nil, directory.tls == nil, !PublicAddress.isLoopback(directory.host) else {
      return nil
    }
    return (
      .plainHTTP, directory.host, "directory.host",
      "directory.host is \(directory.host), and there is no directory.tls: contacts that are looked up would cross "
        + "the network in clear",
      "Give directory.tls.certificate and directory.tls.key"
    )
  }

  private var plainQuestions: Exposure? {
    let place = directory.parts?.first { !$0.url.isSecure && PublicAddress.isPublic($0.url.host) }?.url
    return place.map { place in
      (
        .plainHTTP, place.host, "directory.parts",
        "directory.parts names \(place.text): contacts that are looked up would cross the network in clear",
        "Let the URL begin with https"
      )
    }
  }

  private var openOperations: Exposure? {
    guard !PublicAddress.isLoopback(operations.host) else { return nil }
    return (
      .operatorListener, operations.host, "operator.host",
      "operator.host is \(operations.host): metrics are there for whoever reaches it, without a password",
      "Listen on 127.0.0.1"
    )
  }

  private var loggedCodes: Exposure? {
    guard areClientsExposed, case .log = verification.sender, !development.isEnabled else { return nil }
    return (
      .logSender, client.host, "client.host",
      "client.host is \(client.host), and verification.sender is log: codes go to the log and to nobody's telephone",
      "Set verification.sender to webhook or twilio"
    )
  }

  private var openDevelopment: Exposure? {
    guard areClientsExposed, development.isEnabled else { return nil }
    return (
      .development, client.host, "development.enabled",
      "development.enabled is true, and client.host is \(client.host): whoever reaches it registers any number",
      "Set development.enabled to false"
    )
  }
}

import AsyncHTTPClient
import Directory
import Federation
import NIOCore
import NIOHTTP1
import NIOPosix
import RelayConfiguration
import RelayCore
import RelayHTTP

/// Checks what answers at the ports on which this relay listens.
struct PortChecks {
  private enum Answer: Sendable {
    /// The port is free, and we could listen.
    case free
    /// The port is free, but we may not listen.
    case forbidden(ListenFault)
    case relay
    case stranger(String)
  }

  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] {
    let settings = site.settings
    let roles = settings.roles
    let gateway = settings.pushGateway
    let notifications = settings.deviceNotifications
    let directory = settings.directory
    return [
      check("client", settings.client.host, settings.client.port, isOurs: settings.listensToClients) {
        await recognise(client: $0)
      },
      check("operator", settings.operations.host, settings.operations.port) { await recognise(operator: $0) },
      check("federation", settings.federation.host, settings.federation.port, isOurs: roles.has(.peers)) {
        await recognise(federation: $0)
      },
    ]
      + (gateway.port == nil
        ? []
        : [
          check("push-gateway", gateway.host, gateway.port, isOurs: roles.has(.push)) { await recognise(gateway: $0) }
        ])
      + (notifications.port == nil
        ? []
        : [
          check("device-notifications", notifications.host, notifications.port, isOurs: roles.has(.push)) {
            await recognise(notifications: $0)
          }
        ])
      + (directory.partition == nil
        ? [] : [check("directory", directory.host, directory.port) { await recognise(part: $0) }])
  }

  /// - Parameter isOurs: whether `roles` opens this listener.
  private func check(
    _ name: String, _ host: String, _ port: Int?, isOurs: Bool = true,
    recognise: @escaping @Sendable (String) async -> Answer
  ) -> DoctorCheck {
    DoctorCheck(group: .ports, name: name) {
      guard isOurs else { return [.skipped("left to other processes by roles")] }
      guard let port else { return [.skipped("\(name).port is not set")] }
      guard port != 0 else { return [.skipped("\(name).port is 0: any free one is taken")] }
      let place = "\(host):\(port)"
      switch await answer(at: host, port, keys: name, recognise) {
      case .relay: return [.ok("serving at \(place)")]
      case .free:
        return [.warned("nobody listens at \(place)", remedy: "Start `relay serve`, unless it is meant to be down.")]
      case .forbidden(let fault): return [.failed(fault.text, remedy: fault.remedy)]
      case .stranger(let what):
        return [.failed("\(place) is taken: \(what)", remedy: "Stop what listens there, or change \(name).port.")]
      }
    }
  }

  private func answer(
    at host: String, _ port: Int, keys: String, _ recognise: @Sendable (String) async -> Answer
  ) async -> Answer {
    let address = Self.connectable(host)
    do {
      let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(.seconds(2)).connect(host: address, port: port).get()
      channel.close(promise: nil)
    } catch {
      return await Self.tryListening(at: host, port, keys: keys)
    }
    return await recognise("\(address.contains(":") ? "[\(address)]" : address):\(port)")
  }

  private static func tryListening(at host: String, _ port: Int, keys: String) async -> Answer {
    do {
      let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1).bind(host: host, port: port).get()
      try await channel.close().get()
      return .free
    } catch {
      if let fault = ListenFault(error, at: host, port, keys: keys) { return .forbidden(fault) }
      return .stranger(FaultWords.of(error))
    }
  }

  /// A listener on all addresses is met on the host's own.
  private static func connectable(_ host: String) -> String {
    switch host {
    case "0.0.0.0": "127.0.0.1"
    case "::": "::1"
    default: host
    }
  }

  /// The relay's own refusal of a request without credentials.
  private func recognise(client place: String) async -> Answer {
    // The certificate is another check's: whoever answers is to be told apart, not trusted.
    let scheme = site.settings.client.tls == nil ? "http" : "https"
    let path = site.settings.roles.has(.clients) ? "/v1/keys" : "/v1/directory/tokens"
    let (status, text) = await ask("\(scheme)://\(place)\(path)")
    if scheme == "https", status == nil { return .stranger("no answer that a relay would give (\(text))") }
    return status == 401 && text.hasPrefix(Problem.Kind.unauthorized.rawValue)
      ? .relay : .stranger(status.map { "it answers \($0)" } ?? text)
  }

  private func recognise(operator place: String) async -> Answer {
    let (status, text) = await ask("http://\(place)/livez")
    return status == 200 && text == "ok\n" ? .relay : .stranger(status.map { "it answers \($0)" } ?? text)
  }

  /// A push gateway's refusal of what is no notification.
  private func recognise(gateway place: String) async -> Answer {
    let (status, text) = await ask("http://\(place)/_matrix/push/v1/notify")
    return status == 405 && text.contains("M_UNRECOGNIZED")
      ? .relay : .stranger(status.map { "it answers \($0)" } ?? text)
  }

  /// The interface's refusal of a request without a user.
  private func recognise(notifications place: String) async -> Answer {
    let scheme = site.settings.deviceNotifications.tls == nil ? "http" : "https"
    let (status, text) = await ask("\(scheme)://\(place)/external/notifications/get")
    return status == 200 && text == "N\n23\n" ? .relay : .stranger(status.map { "it answers \($0)" } ?? text)
  }

  /// The refusal of a request without the key of the store.
  private func recognise(part place: String) async -> Answer {
    let scheme = site.settings.directory.tls == nil ? "http" : "https"
    let (status, text) = await ask("\(scheme)://\(place)\(PartClient.path)")
    return status == 401 && text.isEmpty ? .relay : .stranger(status.map { "it answers \($0)" } ?? text)
  }

  /// By the certificate: it is ours, or it is not this relay.
  private func recognise(federation place: String) async -> Answer {
    guard let endpoint = PeerEndpoint("https://\(place)") else { return .stranger("\(place) is no address") }
    do {
      let credentials = try site.credentials()
      return try await credentials.arePresented(at: endpoint)
        ? .relay : .stranger("it presents another certificate than this relay's")
    } catch {
      return .stranger(FaultWords.of(error))
    }
  }

  /// - Returns: status and the beginning of the body, or nil and what went wrong.
  private func ask(_ url: String) async -> (Int?, String) {
    do {
      let response = try await site.probing.execute(HTTPClientRequest(url: url), timeout: .seconds(3))
      let body = try await response.body.collect(upTo: 64 << 10)
      return (Int(response.status.code), String(buffer: body))
    } catch {
      return (nil, "no answer over HTTP (\(FaultWords.of(error)))")
    }
  }
}

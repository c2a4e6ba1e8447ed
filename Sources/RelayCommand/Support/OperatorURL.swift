import RelayConfiguration

extension RelayConfiguration.Operations {
  /// The URL of a process with this configuration, from its own host.
  /// - Parameter option: what names the URL where the port is any free one.
  func url(otherwise option: String) throws -> String {
    guard port != 0 else {
      throw CommandFailure("operator.port is 0, any free one: \(option) names the process's URL, as its log tells it.")
    }
    let reachable = ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host
    return "http://\(reachable.contains(":") ? "[\(reachable)]" : reachable):\(port)"
  }
}

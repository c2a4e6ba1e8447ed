/// The loads of docs/scale.md, "Plan your size".
enum Sizes {
  static let accounts = [1e6, 1e7, 1e8]

  /// As many accounts at a thousand peers together as here.
  static func load(_ accounts: Double) -> Load {
    var load = Load()
    load.accounts = accounts
    load.peers = 1000
    load.peerAccounts = accounts
    return load
  }

  /// Fewer and larger processes than by default.
  static var large: Hardware {
    var hardware = Hardware()
    hardware.coresPerProcess = 16
    hardware.memoryPerProcessGiB = 64
    hardware.connectionsPerProcess = 400_000
    return hardware
  }

  /// From ten thousand accounts to a thousand million, six steps to each ten times as many.
  static var scale: [Double] { (0...30).map { tenTo(4 + Double($0) / 6) } }

  private static func tenTo(_ exponent: Double) -> Double {
    // In steps of a sixth, without the machine's own logarithms.
    let sixth = 1.467_799_267_622_069
    let steps = Int((exponent * 6).rounded())
    return (0..<steps).reduce(1.0) { value, _ in value * sixth }
  }
}

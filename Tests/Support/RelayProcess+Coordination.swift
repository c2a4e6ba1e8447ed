extension RelayProcess {
  /// Waits until it says that it reaches Redis, or that it does not.
  package func untilCoordination(isAvailable: Bool) async throws {
    let value = isAvailable ? 1 : 0
    try await eventually("relay_coordination_available becomes \(value)", within: .seconds(30)) {
      try await ask("/metrics").text.split(separator: "\n").contains {
        $0.hasPrefix("relay_coordination_available") && $0.hasSuffix(" \(value)")
      }
    }
  }
}

/// Everything that is wrong with a configuration, found in one pass.
package struct ConfigurationFaults: Error, Sendable, Equatable, CustomStringConvertible {
  /// Never empty: first those of the file by line, then those of the environment by name, then those of neither.
  package let faults: [ConfigurationFault]

  init(_ faults: [ConfigurationFault]) {
    self.faults = faults.sorted { a, b in
      a.place.order == b.place.order ? a.text < b.text : a.place.order < b.place.order
    }
  }

  /// One line a fault.
  package var description: String { faults.map(\.description).joined(separator: "\n") }
}

/// One fault: where it is and what to do about it. Never shows a secret.
package struct ConfigurationFault: Error, Sendable, Equatable, CustomStringConvertible {
  package let place: ConfigurationPlace
  /// Without the place.
  package let text: String

  /// `relay.yaml:4: client.port: expects a port from 0 to 65535, not "99999"`.
  package var description: String { place == .defaults ? text : "\(place): \(text)" }
}

/// The place of a value.
package enum ConfigurationPlace: Sendable, Equatable, CustomStringConvertible {
  /// Lines count from 1; nil when the line is not known.
  case file(String, line: Int?)
  case variable(String)
  /// Nowhere: nothing was given.
  case defaults

  package var description: String {
    switch self {
    case .file(let path, let line?): "\(path):\(line)"
    case .file(let path, nil): path
    case .variable(let name): name
    case .defaults: "default"
    }
  }

  fileprivate var order: (Int, Int, String) {
    switch self {
    case .file(_, let line): (0, line ?? 0, "")
    case .variable(let name): (1, 0, name)
    case .defaults: (2, 0, "")
    }
  }
}

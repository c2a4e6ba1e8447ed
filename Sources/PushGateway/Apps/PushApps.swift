// `push-gateway.apps` as a tree, to values: every fault in one pass, none of them holding a secret.

import OrderedCollections
import Push
package import RelayCore

/// Something that is wrong, or odd, about one entry.
package struct PushAppFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// The entry's name; nil for the table as a whole.
  package let app: String?
  package let option: String?
  package let text: String

  /// `com.example.ios: key_id: is needed beside keyfile`
  package var description: String { [app, option, text].compactMap(\.self).joined(separator: ": ") }
}

package struct PushAppFaults: Error, Sendable, Equatable {
  /// Never empty; in the order of the entries.
  package let faults: [PushAppFault]
}

/// The entries that a gateway serves.
package struct PushApps: Sendable, Equatable {
  /// At least one; names are different.
  package let apps: [PushApp]
  /// For settings that work but are likely not meant.
  package let warnings: [PushAppFault]

  /// - Parameter tree: an object: app id or pattern to an object of options, named as the reference does (8.2, 8.3).
  package init(_ tree: JSONValue) throws(PushAppFaults) {
    guard case .object(let entries) = tree, !entries.isEmpty else {
      throw PushAppFaults(faults: [
        PushAppFault(app: nil, option: nil, text: "expects at least one app id or pattern with its options")
      ])
    }
    var apps: [PushApp] = []
    var faults: [PushAppFault] = []
    var warnings: [PushAppFault] = []
    for (name, value) in entries {
      guard case .object(let options) = value else {
        faults.append(PushAppFault(app: name.text, option: nil, text: "expects options, each on a line of its own"))
        continue
      }
      var reader = PushAppReader(name: name.text, options: options)
      if let app = reader.app() { apps.append(app) }
      faults += reader.faults
      warnings += reader.warnings
    }
    guard faults.isEmpty else { throw PushAppFaults(faults: faults) }
    self.apps = apps
    self.warnings = warnings
  }

  /// Names and types, for people: among the options there may be secrets. - Parameter tree: whatever was given.
  package static func summary(of tree: JSONValue) -> String {
    let apps = tree.object?.map { name, options in "\(name) (\(options.object?["type"]?.text ?? "?"))" }
    return apps?.joined(separator: ", ") ?? "none"
  }
}

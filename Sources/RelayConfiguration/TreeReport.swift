package import RelayCore

/// The findings of a tree's reader: the configuration itself knows only where it stands.
package struct TreeReport: Sendable {
  package struct Finding: Sendable, Equatable {
    /// From the tree's root: keys, as they stand there.
    package let path: [String]
    /// Completes `KEY: `; never shows a secret.
    package let text: String
    /// For settings that work but are likely not meant.
    package let isWarning: Bool

    package init(at path: [String], _ text: String, isWarning: Bool = false) {
      self.path = path
      self.text = text
      self.isWarning = isWarning
    }
  }

  /// One line for `relay check`, without secrets.
  package let summary: String
  package let findings: [Finding]

  package init(summary: String, findings: [Finding]) {
    self.summary = summary
    self.findings = findings
  }
}

/// The readers of the configuration's trees.
package struct TreeReaders: Sendable {
  /// Of `push-gateway.apps`.
  package var pushApps: @Sendable (JSONValue) -> TreeReport

  package init(pushApps: @escaping @Sendable (JSONValue) -> TreeReport) { self.pushApps = pushApps }

  /// Takes whatever stands there.
  package static let none = TreeReaders { _ in TreeReport(summary: "given", findings: []) }
}

package import RelayCore

/// A process that is to hold a part of the directory.
package struct PartAddress: Sendable, Hashable {
  package let part: DirectoryPartition
  /// A name, or an address without brackets.
  package let host: String
  package let port: Int
  /// Whether it is asked over TLS.
  package let isSecure: Bool

  package init(_ part: DirectoryPartition, host: String, port: Int, isSecure: Bool = false) {
    self.part = part
    self.host = host
    self.port = port
    self.isSecure = isSecure
  }

  /// For logs, and the field `Host`.
  var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }
  var url: String { (isSecure ? "https://" : "http://") + authority }
}

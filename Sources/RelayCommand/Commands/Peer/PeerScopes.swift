import ArgumentParser
import RelayCore

extension PeerCommand {
  /// A peer's scopes as an option: names with commas between them, not none.
  struct Scopes: CustomStringConvertible {
    static let valueName = Peer.Scope.allCases.map(\.rawValue).joined(separator: ",")
    let values: Swift.Set<Peer.Scope>

    init(values: Swift.Set<Peer.Scope>) { self.values = values }

    /// - Throws: `ValidationError`, which names all scopes that there are.
    init(parsing argument: String) throws {
      let names = argument.split(separator: ",").map { String($0.drop { $0 == " " }) }
      let unknown = names.filter { Peer.Scope(rawValue: $0) == nil }
      guard unknown.isEmpty, !names.isEmpty else {
        let fault = unknown.first.map { "There is no scope \"\($0)\"" } ?? "No scope is named"
        throw ValidationError("\(fault): give some of \(Self.valueName).")
      }
      values = Swift.Set(names.compactMap { Peer.Scope(rawValue: $0) })
    }

    var description: String { values.isEmpty ? "nothing" : values.sorted().map(\.rawValue).joined(separator: ",") }
  }
}

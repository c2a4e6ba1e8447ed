// `relay push-gateway import`: an existing Sygnal configuration as ours.

import OrderedCollections
package import RelayCore

/// A translated configuration.
package struct SygnalImport: Sendable, Equatable {
  /// `push-gateway`, and nothing else.
  package let configuration: JSONValue
  /// Settings that could not be taken over, or are to be looked at, one sentence each.
  package let notes: [String]

  /// Options that have a place of their own here, or none.
  private static let known: Set<String> = ["apps", "http"]

  /// - Parameter sygnal: the whole file (reference 8.1).
  /// - Throws: what keeps the apps from being served.
  package init(_ sygnal: JSONValue) throws(PushAppFaults) {
    guard case .object(let root) = sygnal else {
      throw PushAppFaults(faults: [PushAppFault(app: nil, option: nil, text: "this is no configuration of Sygnal")])
    }
    let apps = root["apps"] ?? .object([:])
    var notes = try PushApps(apps).warnings.map(\.description)
    var gateway: JSONObject = [:]
    let http = root["http"]?.object ?? [:]
    gateway["host"] = .text(Self.host(http["bind_addresses"], &notes))
    gateway["port"] = http["port"].flatMap { $0.integer }.map { .integer($0) } ?? .integer(5000)
    gateway["apps"] = Self.withoutUnknown(apps)
    for key in root.keys where !Self.known.contains(key.text) {
      if let note = Self.note(on: key.text, root[key] ?? .null) { notes.append(note) }
    }
    if Self.hasRelativePaths(apps) {
      notes.append(
        "Paths of keys and certificates are taken as they are: relative ones now begin where relay is started.")
    }
    configuration = .object(["push-gateway": .object(gateway)])
    self.notes = notes
  }

  private static func host(_ addresses: JSONValue?, _ notes: inout [String]) -> String {
    let listed = addresses?.list?.compactMap(\.text) ?? addresses?.text.map { [$0] } ?? []
    if listed.count > 1 {
      notes.append("http.bind_addresses: relay listens on one address, the first; 0.0.0.0 or :: takes all of them.")
    }
    let first = listed.first ?? "127.0.0.1"
    return first.isEmpty ? "0.0.0.0" : first
  }

  /// Options that are `null` say nothing.
  private static func withoutUnknown(_ apps: JSONValue) -> JSONValue {
    guard case .object(let entries) = apps else { return apps }
    return .object(
      entries.mapValues { entry in
        guard case .object(let options) = entry else { return entry }
        return .object(options.filter { $0.value != .null })
      })
  }

  private static func note(on key: String, _ value: JSONValue) -> String? {
    switch key {
    case "log":
      "log: relay has log.level and log.format; who may be believed in X-Forwarded-For is client.trusted-proxies."
    case "metrics": metricsNote(value)
    case "proxy": value == .null ? nil : "proxy: relay reaches the providers directly; a proxy is not supported."
    case "db", "database": "\(key): Sygnal itself no longer uses it."
    default: "\(key): is not known, and was left out."
    }
  }

  private static func metricsNote(_ value: JSONValue) -> String? {
    let used = ["prometheus", "opentracing", "sentry"].filter {
      value.object?[$0]?.object?["enabled"] == .boolean(true)
    }
    guard !used.isEmpty else { return nil }
    let prometheus = "metrics.prometheus: relay serves all metrics, Sygnal's names included, at operator.port."
    let others = used.filter { $0 != "prometheus" }.map { "metrics.\($0): relay has none." }
    return ((used.contains("prometheus") ? [prometheus] : []) + others).joined(separator: " ")
  }

  private static func hasRelativePaths(_ apps: JSONValue) -> Bool {
    let options: [JSONName] = ["certfile", "keyfile", "service_account_file", "vapid_private_key"]
    return apps.object?.values.contains { entry in
      options.contains { option in entry.object?[option]?.text.map { !$0.hasPrefix("/") } ?? false }
    } ?? false
  }
}

extension SygnalImport {
  /// The configuration as YAML, the notes as comments above it.
  package var yaml: String {
    let comments = notes.map { "# " + String($0.map { $0.isNewline ? " " : $0 }) + "\n" }.joined()
    guard case .object(let root) = configuration else { return comments }
    return comments + Self.block(root, indent: 0)
  }

  private static func block(_ object: JSONObject, indent: Int) -> String {
    let margin = String(repeating: " ", count: indent)
    return object.map { key, value in
      let head = "\(margin)\(scalar(.text(key.text), isKey: true)):"
      return switch value {
      case .object(let inner) where !inner.isEmpty: "\(head)\n\(block(inner, indent: indent + 2))"
      // A value without lines of its own is JSON, which YAML understands.
      default: "\(head) \(scalar(value, isKey: false))\n"
      }
    }.joined()
  }

  /// Plain where nothing in it means anything to YAML, else JSON.
  private static func scalar(_ value: JSONValue, isKey: Bool) -> String {
    if isKey, let text = value.text, let first = text.utf8.first, (0x61...0x7A).contains(first),
      text.utf8.allSatisfy({ (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || "._-".utf8.contains($0) }),
      !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(text)
    {
      return text
    }
    return String(decoding: value.bytes(.spaced), as: UTF8.self)
  }
}

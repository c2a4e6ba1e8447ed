// YAML as a tree, for what swift-configuration's flat keys cannot hold: names with dots, lists of sections.

import OrderedCollections
package import RelayCore
import Yams

package enum YAMLTree {
  /// Aliases repeat what they name: a few lines can stand for more than fits in memory.
  static let valuesMax = 100_000
  static let depthMax = 32

  /// The content of a YAML file, aliases and merge keys (`<<`) resolved, numbers and truth by YAML 1.1. Its numbers to
  /// the base of 60, such as `1:30`, stay texts: Yams 6.2 ends the process over a large one.
  /// - Throws: what is wrong with it; its place is the file.
  package static func read(file path: String) throws(ConfigurationFault) -> JSONValue {
    let bytes: [UInt8]
    do throws(BoundedFile.Failure) {
      bytes = try BoundedFile.read(path, bytesMax: ConfigurationFile.bytesMax)
    } catch {
      throw ConfigurationFault(place: .file(path, line: nil), text: "cannot be read: \(error.reason)")
    }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw ConfigurationFault(place: .file(path, line: nil), text: "is not UTF-8")
    }
    do throws(YAMLComplaint) {
      return try read(text)
    } catch {
      throw ConfigurationFault(
        place: .file(path, line: error.line), text: "cannot be understood: \(error.text)")
    }
  }

  /// - Returns: null for a text without content.
  static func read(_ text: String) throws(YAMLComplaint) -> JSONValue {
    do {
      guard let node = try Yams.compose(yaml: text) else { return .null }
      return try value(of: node)
    } catch {
      throw YAMLComplaint(error)
    }
  }

  static func value(of node: Node) throws(YAMLComplaint) -> JSONValue {
    var left = valuesMax
    return try value(of: node, depth: 0, left: &left)
  }

  private static func value(of node: Node, depth: Int, left: inout Int) throws(YAMLComplaint) -> JSONValue {
    left -= 1
    guard left >= 0, depth <= depthMax else {
      throw YAMLComplaint(line: node.mark?.line, "more values, or deeper ones, than any configuration has")
    }
    switch node {
    case .scalar(let scalar): return value(of: scalar, tag: node.tag.rawValue)
    case .sequence(let sequence):
      var values: [JSONValue] = []
      for element in sequence { values.append(try value(of: element, depth: depth + 1, left: &left)) }
      return .list(values)
    case .mapping(let mapping): return .object(try object(of: mapping, depth: depth, left: &left))
    case .alias: throw YAMLComplaint(line: node.mark?.line, "an alias names nothing")
    }
  }

  private static func object(
    of mapping: Node.Mapping, depth: Int, left: inout Int
  ) throws(YAMLComplaint) -> JSONObject {
    var object: JSONObject = [:]
    var merged: [JSONValue] = []
    for (key, node) in mapping {
      guard let name = key.scalar?.string else {
        throw YAMLComplaint(line: key.mark?.line, "a key that is no text")
      }
      let value = try value(of: node, depth: depth + 1, left: &left)
      if key.tag.rawValue == Tag.Name.merge.rawValue {
        merged += value.list ?? [value]
      } else {
        object[JSONName(name)] = value
      }
    }
    // Entries beside `<<` go before the entries that it brings, and the first of several before the later ones.
    for other in merged {
      for (name, value) in other.object ?? [:] where object[name] == nil { object[name] = value }
    }
    return object
  }

  /// - Parameter tag: given, or resolved by YAML's rules.
  private static func value(of scalar: Node.Scalar, tag: String) -> JSONValue {
    if scalar.string.contains(":") { return .text(scalar.string) }
    switch tag {
    case Tag.Name.null.rawValue: return .null
    case Tag.Name.bool.rawValue:
      if let truth = Bool.construct(from: scalar) { return .boolean(truth) }
    case Tag.Name.int.rawValue:
      if let number = Int64.construct(from: scalar) { return .integer(number) }
    case Tag.Name.float.rawValue:
      // JSON has no others.
      if let number = Double.construct(from: scalar), number.isFinite { return .number(String(number)) }
    default: break
    }
    return .text(scalar.string)
  }
}

import Foundation

/// Which folders of one target use types of which others.
struct FolderGraph {
  /// A file that uses another folder's type.
  struct Use: Hashable {
    let file: String
    let type: String
  }

  /// By the folder that uses, and the one that is used; the target's own folder is the empty text.
  private(set) var uses: [String: [String: Set<Use>]] = [:]
  private(set) var folders: Set<String> = []

  /// - Parameter sources: texts by their paths inside the target.
  init(_ sources: [String: String]) {
    let texts = sources.mapValues { SourceText($0) }
    var homes: [String: Set<String>] = [:]
    for (path, text) in texts {
      folders.insert(Self.folder(of: path))
      for type in text.declaredAtTop { homes[type, default: []].insert(Self.folder(of: path)) }
    }
    for (path, text) in texts {
      let folder = Self.folder(of: path)
      for type in text.used.subtracting(text.declared) {
        // A name that two folders have tells nothing.
        guard let home = homes[type], home.count == 1, let other = home.first, other != folder else { continue }
        uses[folder, default: [:]][other, default: []].insert(Use(file: path, type: type))
      }
    }
  }

  /// The graph of the files under `folder`.
  init(target folder: URL) throws {
    var sources: [String: String] = [:]
    let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
    for path in paths where path.hasSuffix(".swift") && !path.hasSuffix(".pb.swift") {
      sources[path] = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
    }
    self.init(sources)
  }

  /// Folders that use each other, in a circle; each is used by the one before it, and the first by the last. Empty
  /// where there is no circle.
  var circle: [String] {
    var (isDone, way): (Set<String>, [String]) = ([], [])
    func walk(_ folder: String) -> [String]? {
      if let start = way.firstIndex(of: folder) { return Array(way[start...]) }
      guard !isDone.contains(folder) else { return nil }
      way.append(folder)
      defer {
        way.removeLast()
        isDone.insert(folder)
      }
      for other in (uses[folder] ?? [:]).keys.sorted() {
        if let found = walk(other) { return found }
      }
      return nil
    }
    for folder in folders.sorted() {
      if let found = walk(folder) { return found }
    }
    return []
  }

  /// The uses that make each step of `circle`, for people.
  func reasons(of circle: [String]) -> String {
    zip(circle, circle.dropFirst() + circle.prefix(1)).map { folder, other in
      let some = (uses[folder]?[other] ?? []).map { "\($0.file): \($0.type)" }.sorted().prefix(3)
      return "\(folder) uses \(other) (\(some.joined(separator: ", ")))"
    }.joined(separator: "; ")
  }

  private static func folder(of path: String) -> String {
    path.split(separator: "/").dropLast().joined(separator: "/")
  }
}

import Foundation
import TestTags
import Testing

/// Folders of a target use each other downwards only (docs/architecture.md, "Folders").
@Suite(.tags(.unit)) struct FolderTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// By their paths.
  private static let targets = ["Sources", "Tools"].flatMap { folder in
    ((try? FileManager.default.contentsOfDirectory(atPath: root.path + "/\(folder)")) ?? []).map { "\(folder)/\($0)" }
  }.sorted()

  @Test(arguments: targets) func `no folders use each other in a circle`(target: String) throws {
    let graph = try FolderGraph(target: Self.root.appending(path: target))
    let circle = graph.circle
    #expect(circle == [], "\(graph.reasons(of: circle))")
  }

  @Test func `there are targets with folders`() throws {
    #expect(Self.targets.count > 15)
    #expect(try FolderGraph(target: Self.root.appending(path: "Sources/Federation")).folders.count > 8)
  }

  /// The parts that they share lie below them.
  @Test func `the rooms of federation's features do not use each other`() throws {
    let features: Set = ["Messages", "Contacts", "Peering", "Epochs", "Authority"]
    let graph = try FolderGraph(target: Self.root.appending(path: "Sources/Federation"))
    #expect(graph.folders.isSuperset(of: features))
    for feature in features {
      let others = Set((graph.uses[feature] ?? [:]).keys).intersection(features)
      #expect(others == [], "\(others.map { graph.reasons(of: [feature, $0]) })")
    }
  }

  @Test func `a planted circle is found, and named`() {
    let graph = FolderGraph([
      "Low/Value.swift": "struct Value {}", "Left/A.swift": "struct A { let value: Value; let b: B? }",
      "Right/B.swift": "final class B { func c() { C().d() } }", "Right/C.swift": "struct C { typealias Text = A }",
      "Main.swift": "enum Main { static let all = (A.self, B.self) }",
    ])
    #expect(graph.circle.sorted() == ["Left", "Right"])
    let reasons = graph.reasons(of: graph.circle)
    #expect(reasons.contains("Left/A.swift: B") && reasons.contains("Right/C.swift: A"), "\(reasons)")
  }

  @Test func `comments, texts, members and a file's own types are no uses`() {
    let graph = FolderGraph([
      "One/Word.swift": "struct Word {}; struct Row {}",
      "Two/Other.swift": """
      // Word
      /* Word */
      struct Other {
        struct Row {}
        let row: Row
        let text = "Word \\"Word\\" ", raw = #"Word "Word" \\(Word)"#
        let member = Module.Word
      }
      """,
      "Three/Use.swift": #"let text = "made of \(Word()) and ")"; func done() {}"#,
    ])
    #expect(graph.uses["Two"] == nil, "\(graph.uses)")
    #expect(graph.uses["Three"]?["One"] == [FolderGraph.Use(file: "Three/Use.swift", type: "Word")])
    #expect(graph.circle == [])
  }
}

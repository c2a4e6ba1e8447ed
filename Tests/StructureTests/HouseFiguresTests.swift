import TestTags
import Testing

/// scripts/house-figures.py counts what it says that it counts.
@Suite(.tags(.unit)) struct HouseFiguresTests {
  private static let lines = String(repeating: "    step()\n", count: 41)

  private static let tree = PlantedTree([
    "Sources/Relay/Long.swift": """
    struct Long {
      init() {
    \(lines)  }
      var long: Int {
    \(lines)  }
      func text() -> String {
        #\"""
        }
    \(lines)    \"""#
      }
      func short() { let brace = "}"; /* } */ print(brace) }
      var stored: [Int] = []
      func after() {
    \(lines)  }
    }
    """,
    "Sources/Relay/Table.swift": """
    enum Kind {
      case one, two
      var text: String {
        switch self {
    \(String(repeating: "    case .one: \"1\"\n", count: 45))    case .two: "2"
        }
      }
    }
    """,
    "Sources/Relay/Sleeps.swift": """
    // Task.sleep is none.
    func a() async { try? await Task.sleep(for: .seconds(1)) }
    """,
    "Sources/RelayWork/Pause.swift": "func b() async { try? await Task.sleep(for: .seconds(1)) }\n",
    "Sources/Relay/Made.pb.swift": "func c() {\n\(lines)}\n",
    "Sources/RelayConfiguration/RelayConfiguration+Client.swift": """
    struct Client {
      init(_ keys: inout Reader) {
        host = keys.value("host")
        tls = TLS(&keys, below: "client.tls")
        other = TLS(&keys, below: "peer.tls")
      }
      struct TLS {
        enum Form { case pem }
        init?(_ keys: inout Reader, below section: String) {
          a = keys.optional("a")
          b = keys.optional("b")
        }
      }
    }
    """,
    "README.md": """
    # What is a heading counts as none

    What counts is this. Where it holds, nothing counts. What is a question?

    | What | stands in a table counts as none |

    - Those are a fault
      of two lines.
    \(String(repeating: "wide ", count: 30))
    """,
  ])

  @Test func `each figure counts what was planted, and names its place`() throws {
    let (code, output) = try Self.tree.run("house-figures.py", "--names")
    #expect(code == 0)
    let rows = output.split(separator: "\n").map(String.init)
    func figure(_ name: String) -> (value: String, places: [String])? {
      guard let index = rows.firstIndex(where: { $0.hasPrefix(name + " ") }) else { return nil }
      let value = rows[index].dropFirst(name.count).split(separator: " ").first.map(String.init) ?? ""
      return (value, rows[(index + 1)...].prefix { $0.hasPrefix("  ") }.map { String($0.dropFirst(2)) })
    }
    #expect(figure("files")?.value == "5", "\(output)")
    #expect(figure("configuration keys")?.value == "5", "\(output)")
    let long = figure("functions over 40 lines")
    #expect(
      long?.places == [
        "Sources/Relay/Long.swift:2 init: 41", "Sources/Relay/Long.swift:45 long: 41",
        "Sources/Relay/Long.swift:136 after: 41",
      ], "\(output)")
    #expect(figure("Task.sleep outside RelayWork")?.places == ["Sources/Relay/Sleeps.swift:2"], "\(output)")
    #expect(figure("sentences opened with What, Who, …")?.value == "2", "\(output)")
    #expect(figure("lines of prose over 120 columns")?.places == ["README.md:9"], "\(output)")
  }

  @Test func `what must be none and is not fails the check`() throws {
    let (code, output) = try Self.tree.run("house-figures.py", "--check")
    #expect(code == 1)
    let rows = output.split(separator: "\n").map(String.init)
    #expect(rows.contains { $0.hasPrefix("functions over 40 lines ") } && rows.contains("  README.md:9"), "\(output)")
    #expect(!rows.contains { $0.hasPrefix("files ") || $0.hasPrefix("configuration keys ") }, "\(output)")
    let clean = try PlantedTree(["Sources/Relay/Short.swift": "struct Short {}\n", "README.md": "It is short.\n"])
      .run("house-figures.py", "--check")
    #expect(clean.code == 0 && clean.output.isEmpty, "\(clean.output)")
  }

  @Test func `a tree without sources has no figures`() throws {
    #expect(try PlantedTree(["README.md": ""]).run("house-figures.py").code == 1)
  }
}

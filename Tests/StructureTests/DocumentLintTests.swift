import TestTags
import Testing

/// scripts/lint-docs.py finds each kind of fault, at its line. `make lint` runs it on this repository.
@Suite(.tags(.unit)) struct DocumentLintTests {
  /// One change to a faultless tree, and the line that the script then prints.
  struct Planted: CustomTestStringConvertible, Sendable {
    let file: String
    let added: String
    let found: String
    var testDescription: String { found }
  }

  /// Paths of pages that are not in this repository: the script reads this file too.
  private static let (page, absent) = ("docs/" + "page.md", "docs/" + "absent.md")

  private static let tree = [
    "README.md": """
    # Relay
    [a page](\(page)#two-words), [twice](\(page)#again-1), `relay peer set NAME [--hold on|off]`.

    <!-- run by PageTests -->
    ```sh
    relay peer set beta --hold on && relay ledger beta   # `relay nothing`
    ```
    """,
    page: """
    # Two `words`
    ## Again
    ## Again
    ## Peers (our own)
    [back](../README.md#relay)
    | \(String(repeating: "wide ", count: 30))|

    """,
    "Tests/PageTests.swift": "// \(page), \"Peers\"; \(page)#again",
    "scripts/other.sh": "true\n",
    "deploy/alerts.yml": "runbook_url: https://relay.example/blob/\(page)#again\n",
    "Sources/RelayCommand/RelayTool.swift": """
    struct RelayTool { // { struct Comment {
      let configuration = CommandConfiguration(
        commandName: "relay", abstract: "It { says \\(word(")")) }", subcommands: [Peer.self, LedgerCommand.self])
    }
    struct Peer {
      static let configuration = CommandConfiguration(commandName: "peer", subcommands: [Set.self])
    }
    struct LedgerCommand {
      static let configuration = CommandConfiguration(subcommands: [Show.self], defaultSubcommand: Show.self)
      struct Show { @Flag(help: "JSON (all).") var json = false }
    }
    struct Shared { @Option(name: .customLong("config")) var file: String? }
    """,
    "Sources/RelayCommand/Set.swift": """
    extension Peer {
      struct Set {
        @OptionGroup var shared: Shared
        @Option(help: "on or off") var `hold`: String?
      }
    }
    """,
  ]

  private static let faults = [
    Planted(file: "README.md", added: "[x](\(absent))", found: "README.md:8: the link \(absent) leads to no file"),
    Planted(file: "README.md", added: "[x](../..)", found: "README.md:8: the link ../.. leads out of the repository"),
    Planted(file: page, added: "[x](#again-2)", found: "\(page):7: \(page) has no anchor #again-2"),
    Planted(file: page, added: "\n[x]: ../README.md#no", found: "\(page):8: README.md has no anchor #no"),
    Planted(
      file: page, added: "[x](../deploy/alerts.yml#L3)", found: "\(page):7: deploy/alerts.yml has no line #L3"),
    Planted(
      file: "Tests/PageTests.swift", added: "// \(absent)", found: "Tests/PageTests.swift:2: there is no \(absent)"),
    Planted(
      file: "Tests/PageTests.swift", added: "// \(page)#no", found: "Tests/PageTests.swift:2: \(page) has no anchor #no"
    ),
    Planted(
      file: "Tests/PageTests.swift", added: "// (\(page), \"No\n/// such\")",
      found: "Tests/PageTests.swift:2: \(page) has no section \"No such\""),
    Planted(
      file: "deploy/alerts.yml", added: "runbook_url: https://relay.example/blob/\(page)#no",
      found: "deploy/alerts.yml:2: \(page) has no anchor #no"),
    Planted(
      file: page, added: String(repeating: "wide ", count: 25),
      found: "\(page):7: 125 columns: a line of prose has at most 120"),
    Planted(
      file: page, added: "```sh\ntrue\n```",
      found: "\(page):7: a block of sh without a mark in the line before: run, run by TEST, not run: REASON"),
    Planted(
      file: page, added: "<!-- run by NoTests -->\n```sh\ntrue\n```",
      found: "\(page):8: its mark names NoTests, which is no suite in Tests"),
    Planted(
      file: page, added: "<!-- run by scripts/no.sh -->\n```sh\ntrue\n```",
      found: "\(page):8: its mark names scripts/no.sh, which is not there"),
    Planted(
      file: page, added: "[x](../deploy/alerts.yml#top)",
      found: "\(page):7: deploy/alerts.yml is no page: it has no anchor #top"),
    Planted(
      file: page, added: "<!-- run by scripts/other.sh -->\n```sh\ntrue\n```",
      found: "\(page):8: its mark names scripts/other.sh, which does not read page.md"),
    Planted(
      file: page, added: "<!-- not run: no -->\n```sh\ntrue\n```", found: "\(page):8: its mark gives no reason"),
    Planted(file: page, added: "<!-- run -->\n\n", found: "\(page):7: this mark stands before no block of sh"),
    Planted(
      file: page, added: "```\nrelay peer befriend beta\n```",
      found: "\(page):8: relay peer befriend beta: there is no command befriend"),
    Planted(
      file: page, added: "```\n$ relay ledger show --yaml | cat\n```",
      found: "\(page):8: relay ledger show --yaml: there is no option --yaml"),
    Planted(
      file: page, added: "Run `relay peer set beta --loud`.",
      found: "\(page):7: relay peer set beta --loud: there is no option --loud"),
    Planted(
      file: "Sources/RelayCommand/Set.swift", added: "struct Odd { @Flag(inversion: .prefixedNo) var odd = true }",
      found: "Sources/RelayCommand/Set.swift:7: lint-docs.py cannot read this @Flag: teach it"),
  ]

  @Test func `a faultless tree has no fault`() throws {
    let (code, output) = try Self.lint(Self.tree)
    #expect(code == 0 && output == "", "\(output)")
  }

  @Test(arguments: faults) func `a planted fault is found, at its line, and nothing else`(planted: Planted) throws {
    var tree = Self.tree
    let former = try #require(tree[planted.file])
    tree[planted.file] = former + (former.hasSuffix("\n") ? "" : "\n") + planted.added + "\n"
    let (code, output) = try Self.lint(tree)
    #expect(code == 1 && output == planted.found + "\n", "\(output)")
  }

  @Test func `a tree without pages, or without the program's declarations, is no faultless tree`() throws {
    #expect(try Self.lint(["Makefile": ""]).code == 1)
    let (code, output) = try Self.lint(Self.tree.filter { $0.key != "Sources/RelayCommand/RelayTool.swift" })
    #expect(code == 1 && output.contains("declares no command `relay`"), "\(output)")
  }

  private static func lint(_ tree: [String: String]) throws -> (code: Int32, output: String) {
    try PlantedTree(tree).run("lint-docs.py")
  }
}

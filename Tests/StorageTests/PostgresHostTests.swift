import TestTags
import Testing

@testable import Storage

/// The hosts of a storage URL, and the order in which they are tried.
@Suite(.tags(.unit)) struct PostgresHostTests {
  @Test(
    arguments: [
      ("postgres://relay@db1/relay", ["db1"]),
      ("postgres://relay@db1:5433/relay", ["db1:5433"]),
      ("postgres://relay@db1,db2/relay", ["db1", "db2"]),
      ("postgres://relay@db1:5433,db2:5434/relay?sslmode=require", ["db1:5433", "db2:5434"]),
      ("postgres://relay@db1:5433,db2/relay", ["db1:5433", "db2"]),
      ("postgres://relay@[::1]:5433,[::2]:5434/relay", ["[::1]:5433", "[::2]:5434"]),
      ("postgres:///relay?host=db1,db2&port=5433", ["db1:5433", "db2:5433"]),
      ("postgres:///relay?hostaddr=10.0.0.1,10.0.0.2", ["10.0.0.1", "10.0.0.2"]),
      ("postgres:///relay?host=a,b&hostaddr=10.0.0.1,10.0.0.2", ["a", "b"]),
      ("postgres:///relay", ["the local socket"]),
      // What libpq refuses stays whole, so that it says why.
      ("postgres:///relay?host=a,b&port=1,2,3", ["a,b:1,2,3"]),
      ("postgres:///relay?host=a,b&hostaddr=10.0.0.1", ["a,b"]),
    ])
  func `each host of a URL is tried by itself`(url: String, places: [String]) throws {
    #expect(try PostgresTarget(url: url).hosts().map(\.place.description) == places)
  }

  @Test func `a present URL is read anew, and one that cannot be read changes nothing`() throws {
    let moved = try PostgresTarget(url: "postgres://relay@db1/relay") { "postgres://relay@db2,db3/relay" }
    #expect(moved.hosts().map(\.place.description) == ["db2", "db3"])
    let broken = try PostgresTarget(url: "postgres://relay@db1/relay") { "db2" }
    #expect(broken.hosts().map(\.place.description) == ["db1"])
  }

  @Test func `the known server comes first, one that was left comes last, and turns begin with different hosts`() throws
  {
    let hosts = try PostgresTarget(url: "postgres://relay@a,b,c/relay").hosts()
    let (a, b) = (hosts[0].place, hosts[1].place)
    func order(_ search: PostgresHost.Search, turn: Int, known: PostgresHost.Place?) -> String {
      hosts.ordered(for: search, turn: turn, known: known).map(\.place.description).joined()
    }
    #expect(order(.known, turn: 0, known: nil) == "abc")
    #expect(order(.known, turn: 1, known: nil) == "bca")
    #expect(order(.known, turn: 5, known: a) == "acb")
    #expect(order(.anywhere, turn: 0, known: b) == "abc")
    #expect(order(.anywhere, turn: 4, known: b) == "bca")
    #expect(order(.elsewhere(a), turn: 0, known: a) == "bca")
    #expect(order(.elsewhere(b), turn: 2, known: a) == "cab")
    #expect(order(.elsewhere(PostgresHost.Place(host: "z", hostaddr: nil, port: nil)), turn: 0, known: a) == "abc")
  }
}

import RelayCore
import TestTags
import Testing

@testable import Federation

/// The connections that may be in a handshake, and those that make room for others.
@Suite(.tags(.unit)) struct HandshakePlacesTests {
  private let now = ContinuousClock.now
  private static let bounds = HandshakeBounds(
    strangers: .init(
      places: 2, placesOfAll: 4, rate: Bucket(size: 6, perMinute: 60), rateOfAll: Bucket(size: 10, perMinute: 600)),
    known: .init(places: 3, placesOfAll: 5, rate: Bucket(size: 8, perMinute: 60), rateOfAll: nil))

  private func id(_ verdict: HandshakePlaces.Verdict) throws -> HandshakePlaces.ID {
    guard case .admitted(let id, _) = verdict else {
      Issue.record("\(verdict)")
      throw CancellationError()
    }
    return id
  }

  @Test func `the newest connection of an address takes the place of its oldest`() throws {
    var places = HandshakePlaces(Self.bounds)
    let first = try id(places.opened(from: [1], .stranger, at: now))
    let second = try id(places.opened(from: [1], .stranger, at: now))
    guard case .admitted(_, let displaced) = places.opened(from: [1], .stranger, at: now) else {
      Issue.record("refused")
      return
    }
    #expect(displaced == first)
    #expect(places.count(of: .stranger) == 2)
    // The one that is gone already changes nothing any more.
    places.ended(first, provesPeer: true, at: now)
    #expect(places.count(of: .stranger) == 2)
    places.ended(second, provesPeer: false, at: now)
    #expect(places.count(of: .stranger) == 1)
  }

  @Test func `strangers take no places of known addresses`() throws {
    var places = HandshakePlaces(Self.bounds)
    let known = try id(places.opened(from: [100], .known, at: now))
    for source in 0..<10 {
      guard case .admitted(_, let displaced) = places.opened(from: [UInt8(source)], .stranger, at: now) else {
        Issue.record("refused")
        return
      }
      #expect(displaced != known)
    }
    #expect(places.count(of: .stranger) == 4)
    let verdict1 = places.opened(from: [11], .stranger, at: now)
    #expect(verdict1 == .refused(.strangersRate))
    guard case .admitted = places.opened(from: [100], .known, at: now) else {
      Issue.record("a known address is refused for strangers' sake")
      return
    }
  }

  /// A peer that holds the places of all known addresses, from two of its own.
  @Test func `an address with many places gives way to one with few`() throws {
    var places = HandshakePlaces(Self.bounds)
    let honest = try id(places.opened(from: [1], .known, at: now))
    let first = try id(places.opened(from: [2], .known, at: now))
    _ = try id(places.opened(from: [2], .known, at: now))
    _ = try id(places.opened(from: [3], .known, at: now))
    _ = try id(places.opened(from: [2], .known, at: now))
    let verdict = places.opened(from: [3], .known, at: now)
    guard case .admitted(_, let displaced) = verdict else {
      Issue.record("\(verdict)")
      return
    }
    #expect(displaced == first && displaced != honest)
    #expect(places.count(of: .known) == 5)
  }

  @Test func `where no address has many places, the oldest connection gives way`() throws {
    var places = HandshakePlaces(Self.bounds)
    let ids = try (1...5).map { try id(places.opened(from: [UInt8($0)], .known, at: now)) }
    for (index, source) in ([6, 6, 7] as [UInt8]).enumerated() {
      let verdict = places.opened(from: [source], .known, at: now)
      guard case .admitted(_, let displaced) = verdict else {
        Issue.record("\(verdict)")
        return
      }
      #expect(displaced == ids[index])
    }
  }

  @Test func `an address that proves no peer is slowed down`() throws {
    var places = HandshakePlaces(Self.bounds)
    for _ in 0..<6 { places.ended(try id(places.opened(from: [1], .stranger, at: now)), provesPeer: false, at: now) }
    let verdict2 = places.opened(from: [1], .stranger, at: now)
    #expect(verdict2 == .refused(.addressRate))
    // Not its neighbours.
    _ = try id(places.opened(from: [2], .stranger, at: now))
    _ = try id(places.opened(from: [1], .stranger, at: now + .seconds(1)))
    let verdict3 = places.opened(from: [1], .stranger, at: now + .seconds(1))
    #expect(verdict3 == .refused(.addressRate))
  }

  @Test func `handshakes that prove a peer are not charged`() throws {
    var places = HandshakePlaces(Self.bounds)
    for _ in 0..<100 {
      places.ended(try id(places.opened(from: [100], .known, at: now)), provesPeer: true, at: now)
      places.ended(try id(places.opened(from: [1], .stranger, at: now)), provesPeer: true, at: now)
    }
  }

  @Test func `a balancer has no share of its own`() throws {
    var places = HandshakePlaces(Self.bounds)
    for _ in 0..<100 { _ = try id(places.opened(from: [7], .balancer, at: now)) }
    #expect(places.count(of: .balancer) == 5)
  }

  @Test func `levels are bounded in number`() {
    var levels = BucketLevels<Int>(max: 10)
    let bucket = Bucket(size: 2, perMinute: 60)
    for key in 0..<12 { levels.charge(key, bucket, at: now) }
    #expect(levels.count == 10)
    // The two that came too late share one.
    let (late, early) = (levels.hasRoom(12, bucket, at: now), levels.hasRoom(3, bucket, at: now))
    #expect(!late && early)
    // A level that has leaked out is forgotten.
    let later = levels.hasRoom(13, bucket, at: now + .seconds(3))
    #expect(later)
    #expect(levels.count < 10)
  }

  @Test func `a peer's addresses are bounded, and go with it`() throws {
    let endpoint = try #require(PeerEndpoint("https://127.0.0.1:1"))
    let sources = PeerSources(addresses: PeerAddresses(own: endpoint, allowsPrivate: false))
    for number in 0..<20 { sources.came(try name("beta"), from: [UInt8(number)]) }
    #expect(!sources.contains([3]))
    #expect(sources.contains([4]) && sources.contains([19]))
    sources.tableChanged(PeerTable())
    #expect(!sources.contains([19]))
  }
}

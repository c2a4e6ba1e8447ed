import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Federation

/// How many contacts a peer may have, without a store.
@Suite(.tags(.unit)) struct ContactAllowanceTests {
  @Test func `only as many are admitted as there is room for`() throws {
    var allowance = ContactAllowance(max: 4, kept: 1)
    let page = try tokens(5, inactive: [1])
    let (admitted, refused) = allowance.admit(page, known: [])
    #expect(admitted == Array(page.prefix(4)) && refused == 1)
    #expect(allowance.kept == 4)
    #expect(allowance.admit(page, known: []).admitted == [page[1]])
  }

  @Test func `known contacts take no room, and removed ones make none`() throws {
    var allowance = ContactAllowance(max: 4, kept: 4)
    let page = try tokens(5, inactive: [3])
    let known = Set(page.map(\.token).prefix(4))
    // The one that goes leaves its claim: the last has no place.
    let (admitted, refused) = allowance.admit(page, known: known)
    #expect(admitted == Array(page.prefix(4)) && refused == 1)
    #expect(allowance.kept == 4)
    // An unknown contact vanishes without taking room. If a token comes twice, one takes it.
    var other = ContactAllowance(max: 1, kept: 0)
    #expect(other.admit([page[3], page[0], page[0], page[1]], known: []).refused == 1)
    #expect(other.kept == 1)
  }

  @Test func `a complete reading brings no more contacts than the bound`() throws {
    let page = try tokens(5, inactive: [])
    var allowance = ContactAllowance(max: 3, kept: 5)
    allowance.beginWhole()
    // Five are known, of which it may have three.
    let (admitted, refused) = allowance.admit(page, known: Set(page.map(\.token)))
    #expect(admitted == Array(page.prefix(3)) && refused == 2)
    #expect(allowance.brought == 3 && !allowance.hasPlaces)
    // Tombstones take the room of what is new, and not that of what is known.
    var full = ContactAllowance(max: 3, kept: 3)
    full.beginWhole()
    #expect(full.admit(page, known: [page[4].token]).admitted == [page[4]])
    #expect(full.hasPlaces && full.brought == 1)
  }

  @Test func `complete readings take a tenth of the time`() {
    let start = ContinuousClock.now
    var progress = PullProgress(contactsMax: 1)
    #expect(progress.mayReadWhole(at: start))
    progress.readWhole(since: start, until: start + .seconds(3))
    #expect(!progress.mayReadWhole(at: start + .seconds(32)))
    #expect(progress.mayReadWhole(at: start + .seconds(33)))
    #expect(progress.mayFollow(at: start))
    progress.followed(since: start, until: start + .seconds(1))
    #expect(!progress.mayFollow(at: start + .seconds(10)))
    #expect(progress.mayFollow(at: start + .seconds(11)))
  }

  @Test func `a peer that keeps our questions is asked on after a tenth of a second, and later if it brings much`() {
    let start = ContinuousClock.now
    var progress = PullProgress(contactsMax: 1)
    #expect(progress.asksOn == nil && !progress.isPushed)
    progress.asksOn(at: start)
    #expect(progress.asksOn == start + .milliseconds(100) && !progress.isPushed)
    for (busy, rest) in [(0, 100), (10, 100), (30, 300), (5000, 5000)] {
      let now = start + .milliseconds(busy)
      progress.pushed(since: start, until: now)
      #expect(progress.asksOn == now + .milliseconds(rest) && progress.isPushed)
    }
    progress.begin()
    #expect(progress.asksOn == nil && !progress.isPushed)
  }
}

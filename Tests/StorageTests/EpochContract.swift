import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct EpochContract {
  @Test(arguments: Backend.allCases)
  func `the epoch rises by one, or to the floor, and never falls`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let first = try await store.storage.advanceEpoch(atLeast: 0)
      #expect(first.before == 0 && first.after == 1)
      let jump = try await store.storage.advanceEpoch(atLeast: 1_800_000_000)
      #expect(jump.before == 1 && jump.after == 1_800_000_000)
      for floor in [1_800_000_000, 5, 1_800_000_002] as [Int64] {
        let step = try await store.storage.advanceEpoch(atLeast: floor)
        #expect(step.after == step.before + 1)
      }
      try await store.storage.setAsideOneTimePreKeys(epoch: 7, by: .process, behind: .zero)
      #expect(try await store.storage.advanceEpoch(atLeast: 0).before == 1_800_000_003)
      try await store.storage.setAsideOneTimePreKeys(epoch: 1_900_000_000, by: .process, behind: .zero)
      #expect(try await store.storage.advanceEpoch(atLeast: 0).before == 1_900_000_000)
    }
  }

  @Test(arguments: Backend.allCases)
  func `each of 64 steps at once begins where another ended`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let steps = try await withThrowingTaskGroup(of: (before: Int64, after: Int64).self) { group in
        for _ in 0..<64 { group.addTask { try await store.storage.advanceEpoch(atLeast: 10) } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(steps.map(\.after).sorted() == Array(10..<74))
      #expect(steps.map(\.before).sorted() == [0] + Array(10..<73))
    }
  }

  @Test(arguments: Backend.allCases)
  func `keys set aside are gone; last resorts and signed ones serve until devices refill`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let numbers = try await store.registerAccounts(3)
      let upload = Sample.upload([1, 2, 3], signed: Sample.signedKey(4))
      for number in numbers {
        #expect(try await store.storage.replacePreKeys(of: DeviceAddress(number, .master), with: upload) == .stored)
      }
      try await store.storage.setAsideOneTimePreKeys(epoch: 1, by: .process, behind: .zero)
      for number in numbers {
        #expect(try await store.storage.preKeyCount(of: DeviceAddress(number, .master)) == 0)
        let drawn = try await store.draw(from: number)
        #expect(drawn.map(\.preKey?.publicKey) == ["last resort"])
        #expect(drawn.map(\.signedPreKey) == [Sample.signedKey(4)])
      }
      let device = DeviceAddress(numbers[0], .master)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([9])) == .stored)
      #expect(try await store.draw(from: numbers[0]).map(\.preKey?.keyID) == [9])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a store that has not come as far as its caller knows hands out no one-time key`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let number = try await store.registerAccounts(1)[0]
      let device = DeviceAddress(number, .master)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([1, 2, 3])) == .stored)
      let epoch = try await store.storage.advanceEpoch(atLeast: 700).after
      #expect(try await store.draw(from: number, epoch: epoch).map(\.preKey?.keyID) == [1])
      #expect(try await store.draw(from: number, epoch: epoch + 1).map(\.preKey?.publicKey) == ["last resort"])
      #expect(try await store.storage.preKeyCount(of: device) == 2)
      #expect(try await store.storage.advanceEpoch(atLeast: 0).after == epoch + 1)
      #expect(try await store.draw(from: number, epoch: epoch + 1).map(\.preKey?.keyID) == [2])
    }
  }

  @Test(arguments: Backend.allCases)
  func `notes about a restore are kept, the last of each kind`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta) = (store.storage, try Sample.relay("beta"))
      #expect(try await storage.restoreNotes() == RestoreNotes(setAside: nil, claim: nil, heldBack: nil))
      for behind in [5, 9] { try await storage.noteRestoreClaim(by: beta, behind: .seconds(behind)) }
      let claim = try #require(try await storage.restoreNotes().claim)
      #expect(claim.word == "beta" && claim.behind == .seconds(9))
      #expect(try await storage.restoreNotes().setAside == nil)
      // A process that is answered otherwise forgets it.
      try await storage.noteRestoreClaim(by: nil, behind: .zero)
      #expect(try await storage.restoreNotes().claim == nil)
      try await storage.noteRestoreClaim(by: beta, behind: .seconds(9))
      for word in [RestoreWord.redis, .peers([beta, try Sample.relay("gamma")])] {
        try await storage.setAsideOneTimePreKeys(epoch: 700, by: word, behind: .milliseconds(1500))
        let notes = try await storage.restoreNotes()
        let note = try #require(notes.setAside)
        #expect(note.word == word.text && note.behind == .milliseconds(1500) && note.noted.millis > 0)
        #expect(notes.claim == nil, "it is answered")
      }
      #expect(try await storage.epoch() == 700)
      for isHeldBack in [true, false] {
        try await storage.noteHeldBack(isHeldBack)
        #expect(try await (storage.restoreNotes().heldBack != nil) == isHeldBack)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a peer's highest epoch is remembered, with the peer`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (storage, beta, gamma) = (store.storage, try Sample.relay("beta"), try Sample.relay("gamma"))
      #expect(try await storage.rememberEpoch(5, of: beta) == nil)
      for name in ["beta", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      #expect(try await storage.rememberEpoch(5, of: beta) == 0)
      #expect(try await storage.rememberEpoch(3, of: beta) == 5)
      #expect(try await storage.rememberEpoch(8, of: beta) == 5)
      #expect(try await storage.rememberEpoch(8, of: beta) == 8)
      #expect(try await storage.rememberEpoch(1, of: gamma) == 0)
      // A peer that is saved again or suspended is the same one.
      #expect(try await storage.savePeer(Sample.peer("beta")))
      #expect(try await storage.setPeerState(.suspended, of: beta))
      #expect(try await storage.rememberEpoch(1, of: beta) == 8)
      #expect(try await storage.removePeer(beta) == .removed)
      #expect(try await storage.rememberEpoch(9, of: beta) == nil)
    }
  }

  @Test(arguments: Backend.allCases) func `a peer's epoch is no change of the peer`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let before = try await store.storage.peersRevision()
      #expect(try await store.storage.rememberEpoch(5, of: Sample.relay("beta")) == 0)
      #expect(try await store.storage.peersRevision() == before)
      #expect(try await store.storage.peers() == [Sample.peer("beta")])
    }
  }
}

// States of embedded stores that no single request brings about.

import GRDB
package import RelayCore
import Storage

extension RelayOperator {
  /// Adds device `id`, whatever linking would choose, to an account: it counts as having a signed prekey, fetches its
  /// messages, and has the password of device 1. The running relay may know the account as it was until its next
  /// change.
  package func linkDevice(_ id: Int, registrationID: Int, to device: TestDevice) async throws -> TestDevice {
    guard let number = AccountNumber(e164: device.number) else { throw TestFailure("not a number") }
    let queue = try SQLiteDatabase.open(databasePath)
    try await queue.write { db in
      try db.execute(
        sql: """
          INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
            fetches_messages, has_signed_prekey, last_seen, created)
          SELECT account, ?, password_salt, password_hash, signaling_key, ?, 1, 1, last_seen, created
          FROM devices WHERE account = ? AND device = 1
          """, arguments: [id, registrationID, Int64(number.digits)])
    }
    try queue.close()
    return TestDevice(number: device.number, password: device.password, device: id, registrationID: registrationID)
  }

  /// Writes down that the active peer `relay` lists the numbers of `tokens`.
  package func listAtPeer(_ relay: String, tokens: [ContactToken]) async throws {
    guard let name = RelayName(relay) else { throw TestFailure("not a relay's name") }
    let storage = try SQLiteStorage(path: databasePath, clock: WallClock { Timestamp(millis: 0) })
    let peer = Peer(
      name: name, url: "https://127.0.0.1:1", caCertificate: [1], state: .active, scopes: Set(Peer.Scope.allCases),
      added: Timestamp(millis: 0))
    guard try await storage.savePeer(peer) else { throw TestFailure("the peer was not saved") }
    let listed = tokens.map { ListedAccount(token: $0, isInactive: false, supportsSMS: false, voice: false) }
    try await storage.mergeContacts(listed, of: name, pass: 1)
    await storage.close()
  }

  /// Whether the peer `relay` has confirmed the devices of an account of its own.
  package func hasConfirmedDevices(of device: TestDevice, by relay: String) async throws -> Bool {
    guard let number = AccountNumber(e164: device.number), let name = RelayName(relay) else {
      throw TestFailure("not a number, or not a relay's name")
    }
    let storage = try SQLiteStorage(path: databasePath, clock: WallClock { Timestamp(millis: 0) })
    let devices = try await storage.confirmedDevices(of: number, at: name, since: Timestamp(millis: 0))
    await storage.close()
    return devices != nil
  }

  private var databasePath: String { folder + "/relay.sqlite" }
}

// MARK: - Oblivious look-ups

extension RelayOperator {
  /// Writes down outputs that the running relay has not computed, under its key, as soon as it has done all that is
  /// its own.
  package func addOutputs(_ outputs: [ContactOutput]) async throws {
    let storage = try SQLiteStorage(path: databasePath, clock: WallClock { Timestamp(millis: 0) })
    try await eventually("the relay has done its part") {
      guard let progress = try await storage.obliviousProgress(), progress.isComplete, progress.isSwept else {
        return false
      }
      let next = ObliviousProgress(
        key: progress.key, place: progress.place, rangesDone: progress.rangesDone, isSwept: true,
        followed: progress.followed, step: progress.step + 1)
      return try await storage.writeOutputs(ObliviousChange(added: outputs), next, over: progress.step)
    }
    await storage.close()
  }

  /// From now on the running relay cannot read the directory's feed, or can again; all else goes on.
  package func hideDirectoryFeed(_ isHidden: Bool) async throws {
    let names = ["directory_changes", "directory_changes_hidden"]
    let (from, to) = isHidden ? (names[0], names[1]) : (names[1], names[0])
    let queue = try SQLiteDatabase.open(databasePath)
    try await queue.write { db in try db.execute(sql: "ALTER TABLE \(from) RENAME TO \(to)") }
    try queue.close()
  }
}

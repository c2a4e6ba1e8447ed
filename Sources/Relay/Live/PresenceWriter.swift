import RelayCore
import RelayHTTP
import RelayWork
import Synchronization

/// Writes down for the other processes who is connected here: what gathers during one round trip goes in the next.
///
/// One write at a time: so what is said of a connection arrives in the order in which it was said, and no renewal comes
/// after its end.
final class PresenceWriter: Sendable {
  private enum Entry: Sendable {
    case held(DeviceSession)
    case left(LiveConnection)
    case stray(DeviceAddress, heardBy: Hub)
  }

  private let entries: Batcher<Entry>

  init(_ presence: any Presence) {
    entries = Batcher(batchMax: 500, waitingMax: Self.waitingMax) { entries in
      await Self.write(entries, to: presence)
    }
  }

  /// Enters those that are not noted yet, and renews the others. Sessions for which there is no room come with the
  /// next round.
  func held(_ sessions: [DeviceSession]) { entries.add(contentsOf: sessions.map(Entry.held)) }

  /// An entry that there was no room to remove expires.
  func left(_ connection: LiveConnection) { entries.add(.left(connection)) }

  /// `hub` was told of devices that it does not hold: it looks at them in their turn (`Hub.settle(strays:)`).
  /// - Returns: how many there was room for, the first ones.
  func strayed(_ devices: [DeviceAddress], heardBy hub: Hub) -> Int {
    entries.add(contentsOf: devices.map { .stray($0, heardBy: hub) })
  }

  func settle(until deadline: ContinuousClock.Instant) async { await entries.settle(until: deadline) }

  private static func write(_ entries: [Entry], to presence: any Presence) async {
    var ids: Set<UInt64> = []
    var new: [DeviceSession] = []
    var noted: [DeviceSession] = []
    // One that another has displaced here has ended: it does not come back after that one.
    for case .held(let session) in entries where !session.hasEnded && ids.insert(session.id).inserted {
      if session.notes.isNoted.load(ordering: .acquiring) { noted.append(session) } else { new.append(session) }
    }
    await enter(new, presence)
    if !noted.isEmpty {
      let renewal = await presence.renew(noted.map(\.connection))
      let (regained, unwritten) = (Set(renewal.regained), Set(renewal.unwritten))
      for session in noted {
        if unwritten.contains(session.connection) { session.notes.isNoted.store(false, ordering: .releasing) }
        if regained.contains(session.connection) { session.woken() }
      }
    }
    await withTaskGroup(of: Void.self) { group in
      for case .left(let connection) in entries { group.addTask { await presence.leave(connection) } }
    }
    var strays: [DeviceAddress] = []
    var hub: Hub?
    for case .stray(let device, let hearer) in entries {
      strays.append(device)
      hub = hearer
    }
    await hub?.settle(strays: strays)
  }

  private static func enter(_ sessions: [DeviceSession], _ presence: any Presence) async {
    await withTaskGroup(of: Void.self) { group in
      for session in sessions {
        group.addTask {
          guard await presence.enter(session.connection) else { return }
          session.notes.isNoted.store(true, ordering: .releasing)
          // Messages that other processes stored before they knew of it did not wake it.
          session.woken()
        }
      }
    }
  }

  /// All connections of a process, coming, renewed and going.
  private static let waitingMax = 200_000
}

// The commands that a connection to Redis sends by itself: its hand-shake, and the probes that show whether it lives.

import RelayCore
import Synchronization

/// All of it on the reactor's thread.
extension RedisConnection {
  /// All in one flight: authenticate, choose the database, prove that commands and writes work, and subscribe where
  /// that is asked. A replica answers PING like its primary: only a write tells them apart.
  func shakeHands(with target: RedisTarget) {
    if let password = target.password?.value {
      expectSuccess(target.user.map { RedisCommand("AUTH", $0, password) } ?? RedisCommand("AUTH", password))
    }
    if target.database != 0 { expectSuccess(RedisCommand("SELECT", String(target.database))) }
    expectSuccess(RedisCommand("PING"))
    if target.isNamedPrimary { askRole() }
    // The first probe of a subscription makes it one, and no write is taken behind it.
    if case .subscription(let channels) = role {
      tryToWrite()
      if target.isNode { subscribeToShards(channels) }
    }
    probe { [self] in becomeReady() }
  }

  /// A subscribed connection is asked by subscribing again: unlike PING, hiredis 0.14 hands that answer to its caller.
  func probe(_ succeeded: @escaping () -> Void = {}) {
    probed = .now
    switch role {
    case .commands:
      learnTime()
      tryToWrite(then: succeeded)
    case .subscription(let channels):
      // A command for each: Redis answers once a channel, and whoever waits here takes one answer.
      for channel in channels.dropLast() { expectSuccess(RedisCommand("SUBSCRIBE", channel)) }
      if let last = channels.last { expectSuccess(RedisCommand("SUBSCRIBE", last), then: succeeded) }
    case .sentinel(let group): askForPrimary(of: group, then: succeeded)
    case .slots: askForSlots(then: succeeded)
    }
  }

  /// Beside the subscription of the same channels as on any server, under which hiredis hands their messages over. A
  /// server of before version 7 does not know it: there that subscription alone serves.
  private func subscribeToShards(_ channels: [String]) {
    for channel in channels {
      send(RedisCommand("SSUBSCRIBE", channel)) { [self] reply in
        switch reply {
        case .elsewhere: failed(.slotMoved)
        case .error(code: "CLUSTERDOWN"): failed(.connectionEnded)
        default: break
        }
      }
    }
  }

  /// A node that finds the cluster unusable is left: it may be cut off from the others.
  private func askForSlots(then succeeded: @escaping () -> Void) {
    send(RedisCommand("CLUSTER", "INFO")) { [self] reply in
      switch reply {
      case .bytes(let text) where String(decoding: text, as: UTF8.self).contains("cluster_state:fail"):
        failed(RedisLinkFault("the cluster of Redis serves no keys (cluster_state:fail)"))
      case .error(code: "ERR"): failed(.noCluster)
      case .error(let code): failed(RedisLinkFault(refusingLogin: code))
      default: break
      }
    }
    send(RedisCommand("CLUSTER", "SLOTS")) { [self] reply in
      guard let reply, let target else { return }
      guard let map = SlotMap(reply, by: target.address) else { return failed(.noCluster) }
      succeeded()
      handler(.slots(map))
    }
  }

  /// A server that calls itself a replica is none to keep, whatever it lets us write. A user without the right to ask
  /// goes on: the write tells too.
  private func askRole() {
    send(RedisCommand("ROLE")) { [self] reply in
      guard case .array(let parts) = reply, let role = parts.first?.name, role != "master" else { return }
      failed(.notPrimary)
    }
  }

  /// The epoch first: if a fail-over comes between the two answers, the new address lies under the old epoch for one
  /// probe, and no old address under the new one.
  private func askForPrimary(of group: String, then succeeded: @escaping () -> Void) {
    var state: RedisReply?
    send(RedisCommand("SENTINEL", "MASTER", group)) { state = $0 }
    send(RedisCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", group)) { [self] reply in
      guard let reply else { return }
      if case .error(let code) = reply, code != "ERR" { return failed(RedisLinkFault(refusingLogin: code)) }
      guard let answer = SentinelAnswer(state: state, address: reply) else { return failed(.noSentinel) }
      succeeded()
      handler(.answer(answer))
    }
  }

  /// Writes nothing, and leaves nothing behind; a server that takes no writes refuses it (`received`). Another
  /// refusal, as of a user without the right to this key, is none of a connection's.
  private func tryToWrite(then done: @escaping () -> Void = {}) {
    send(RedisCommand("DEL", probeKey)) { if $0 != nil { done() } }
  }

  /// - Parameter done: is told whether the server answered with its time.
  func learnTime(then done: @escaping (Bool) -> Void = { _ in }) {
    let asked = ContinuousClock.now
    send(RedisCommand("TIME")) { [self] reply in
      guard let learned = ServerClock(reply, asked: asked, answered: .now) else { return done(false) }
      serverClock.withLock { $0 = $0?.corrected(by: learned) ?? learned }
      done(true)
    }
  }

  private func expectSuccess(_ command: RedisCommand, then succeeded: @escaping () -> Void = {}) {
    send(command) { [self] reply in
      switch reply {
      case nil: break
      case .error(let code): failed(RedisLinkFault(refusingAll: code) ?? RedisLinkFault(refusingLogin: code))
      default: succeeded()
      }
    }
  }
}

import Foundation
import Synchronization
import TestSupport
import Testing

/// Clients of alpha that write to one account at each operator at a steady rate, whatever becomes of it, and the
/// account of what they were answered.
final class Traffic: Sendable {
  /// One answer.
  struct Sample: Sendable {
    let status: Int
    let latency: Duration
  }

  struct Lane: Sendable {
    let name: String
    let sender: TestDevice
    let recipient: TestDevice
    /// nil for alpha itself.
    let relay: String?
  }

  let lanes: [Lane]
  private let alpha: [RelayProcess]
  private let clock = Atomic<Int64>(1_700_000_000_000)
  private let samples = Mutex<[String: [Sample]]>([:])
  private let accepted: [String: Ledger<Int64>]

  init(_ operators: [Operator]) async throws {
    alpha = await operators[0].relays
    var lanes: [Lane] = []
    for one in operators {
      let home = try #require(await one.relays.first)
      lanes.append(
        Lane(
          name: one.name, sender: try await alpha[0].register(), recipient: try await home.register(),
          relay: one.name == "alpha" ? nil : one.name))
    }
    self.lanes = lanes
    accepted = Dictionary(uniqueKeysWithValues: lanes.map { ($0.name, Ledger()) })
  }

  /// Sends `perSecond` messages on each lane for `seconds`, and waits for the answers.
  /// - Returns: what was answered, by lane.
  func run(seconds: Int, perSecond: Int) async -> [String: [Sample]] {
    samples.withLock { $0 = [:] }
    let begin = ContinuousClock.now
    await withTaskGroup(of: Void.self) { group in
      for lane in lanes {
        group.addTask {
          await withTaskGroup(of: Void.self) { group in
            for number in 0..<(seconds * perSecond) {
              // An open loop: the next one goes at its time, whether the last was answered or not.
              let due = begin + .seconds(1) * number / perSecond
              do { try await Task.sleep(until: due, clock: .continuous) } catch { return }
              group.addTask { await self.send(on: lane, process: number % self.alpha.count) }
            }
          }
        }
      }
    }
    return samples.withLock { $0 }
  }

  @discardableResult
  func send(on lane: Lane, process: Int = 0) async -> Int {
    let time = clock.add(1, ordering: .relaxed).newValue
    let relay = lane.relay.map { #","relay":"\#($0)""# } ?? ""
    let json = #"{"timestamp":\#(time)\#(relay),"messages":[\#(message("Zm9vYmFy", registrationID: 111))]}"#
    let begin = ContinuousClock.now
    // Status 0: no answer at all.
    let answer = try? await alpha[process].send(
      "PUT", "/v1/messages/\(lane.recipient.number)", json: json, as: lane.sender)
    let sample = Sample(status: answer?.status ?? 0, latency: .now - begin)
    samples.withLock { $0[lane.name, default: []].append(sample) }
    if sample.status == 200 { accepted[lane.name]?.add(time) }
    return sample.status
  }

  /// Takes everything out of the recipients' mailboxes and compares it with what was accepted on all lanes.
  /// - Returns: how many are missing and how many came twice.
  func settle(_ operators: [Operator]) async throws -> (lost: Int, doubled: Int) {
    var (lost, doubled) = (0, 0)
    for (lane, one) in zip(lanes, operators) {
      let home = try #require(await one.relays.first)
      let owed = Set(accepted[lane.name]?.all ?? [])
      var arrived: [Int64] = []
      do {
        try await eventually(
          "what was accepted for \(lane.name) has arrived", within: .seconds(60), every: .milliseconds(200)
        ) {
          while true {
            let page = try await home.mailbox(of: lane.recipient)
            for message in page {
              let time = try #require(message["timestamp"] as? Int)
              arrived.append(Int64(time))
              let source = try #require(message["source"] as? String)
              _ = try await home.send("DELETE", "/v1/messages/\(source)/\(time)", as: lane.recipient)
            }
            if page.isEmpty { break }
          }
          return owed.isSubset(of: arrived)
        }
      } catch is WaitExpired {
        lost += owed.subtracting(arrived).count
      }
      doubled += arrived.count - Set(arrived).count
      accepted[lane.name]?.forget()
    }
    return (lost, doubled)
  }
}

extension [Traffic.Sample] {
  var p99: Duration {
    let sorted = map(\.latency).sorted()
    return sorted.isEmpty ? .zero : sorted[Swift.min(sorted.count - 1, sorted.count * 99 / 100)]
  }
  var longest: Duration { map(\.latency).max() ?? .zero }
  /// How many got which answer, in words.
  var answers: String {
    Dictionary(grouping: self, by: \.status).sorted { $0.key < $1.key }.map { "\($0.value.count) × \($0.key)" }
      .joined(separator: ", ")
  }
}

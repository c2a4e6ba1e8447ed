import NIOCore

/// The senders of one run, and what all count together. Belongs to their event loop.
final class LiveRun {
  let tally = LiveTally()
  let ordered: [LiveSender]
  /// By number.
  let senders: [String: LiveSender]
  private let pacer: Pacer?

  init(_ work: [LiveLoad.Work], _ firstTimestamp: Int64, pacePerSecond: Int?) {
    let pacer = pacePerSecond.map { [tally] in Pacer(perSecond: $0, tally: tally.submissions) }
    ordered = work.map { [tally] work in
      LiveSender(work.messages, firstTimestamp: firstTimestamp, tally: tally, pacer: pacer)
    }
    senders = Dictionary(uniqueKeysWithValues: zip(work.map(\.sender.number), ordered))
    self.pacer = pacer
  }

  func begin(on loop: any EventLoop) {
    for sender in ordered { sender.begin() }
    pacer?.begin(on: loop)
  }

  var isSettled: Bool { tally.isSettled && ordered.allSatisfy { !$0.isUnderWay } }

  func giveUp() {
    tally.failed(
      "in \(tally.accepted) messages accepted, \(tally.delivered) delivered, \(tally.receipts) receipts delivered")
  }
}

// Legacy FCM (reference 6): one request for all devices of a notification that an app has, and another one for those
// that the service wants tried again.

import OrderedCollections
package import Push
package import RelayCore

/// The body of legacy FCM's request, but for whom it goes to.
package enum FCMLegacyMessage: Sendable, Equatable {
  case send(FCMLegacyBody)
  case nothing
  case unusableDefault

  /// - Parameter device: the first of them: its default payload is that of all.
  package init(_ notification: PushNotification, device: NotifiedDevice, options: JSONObject, sendsCounts: Bool) {
    switch FCMData(notification, device: device, sendsCounts: sendsCounts, .nested) {
    case .unusableDefault: self = .unusableDefault
    case .nothing: self = .nothing
    case .data(let data):
      var body = options
      body["data"] = .object(data)
      body["priority"] = .text(notification.fcmPriority)
      self = .send(FCMLegacyBody(body: body))
    }
  }
}

package struct FCMLegacyBody: Sendable, Equatable {
  fileprivate let body: JSONObject

  /// - Parameter tokens: one goes as `to`, several as `registration_ids`; never both.
  package func bytes(to tokens: [String]) -> [UInt8] {
    var whole = body
    whole["to"] = nil
    whole["registration_ids"] = nil
    if tokens.count == 1 {
      whole["to"] = .text(tokens[0])
    } else {
      whole["registration_ids"] = .list(tokens.map { .text($0) })
    }
    return JSONValue.object(whole).bytes(.compact)
  }
}

/// Which tokens wait for another request, and what became of the others.
package struct FCMLegacyExchange: Sendable, Equatable {
  package enum Action: Sendable, Equatable {
    /// Wait, then send to these.
    case send([String], after: Duration)
    /// The outcome of each token, in the order they were given.
    case finish([PushOutcome])
  }

  /// The reference tries at once; the service asked for a pause, which its whole requests have at their first repeat.
  private static let pause = Duration.seconds(10)
  private static let triesMax = 3

  private let tokens: [String]
  /// nil while a token waits.
  private var outcomes: [PushOutcome?]
  private var tries = 0

  /// - Parameter tokens: at least one.
  package init(tokens: [String]) {
    self.tokens = tokens
    outcomes = Array(repeating: nil, count: tokens.count)
  }

  package var begin: Action { .send(tokens, after: .zero) }

  /// The request to all that waited has ended.
  /// - Parameter outcome: `.several` in their order, or one of all of them.
  package mutating func answered(_ outcome: PushOutcome) -> Action {
    tries += 1
    let waiting = outcomes.indices.filter { outcomes[$0] == nil }
    let answers: [PushOutcome] =
      if case .several(let each) = outcome, each.count == waiting.count { each } else {
        Array(repeating: outcome, count: waiting.count)
      }
    // If the outcome is temporary for all tokens, the lane has already tried again.
    let isLast = if case .several = outcome { tries >= Self.triesMax } else { true }
    for (index, answer) in zip(waiting, answers) {
      if !isLast, case .temporary = answer { continue }
      outcomes[index] = answer
    }
    let left = outcomes.indices.filter { outcomes[$0] == nil }.map { tokens[$0] }
    return left.isEmpty ? .finish(outcomes.compactMap(\.self)) : .send(left, after: Self.pause)
  }

  /// There is no time for another request.
  package mutating func givenUp() -> Action { .finish(outcomes.map { $0 ?? .temporary(.deadline) }) }
}

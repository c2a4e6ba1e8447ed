import CampaignModel

/// A history as a test tells it: each line comes a second after the one before.
struct Story {
  private(set) var events: [Event] = []
  private var seconds = 0.0
  private var operations = 0
  private var faults = 0

  /// - Returns: the rules that it breaks.
  var broken: Set<String> {
    var checker = Checker()
    for event in events { checker.take(event) }
    return Set(checker.finish().filter { !$0.isKept }.map(\.rule))
  }

  static func broken(_ tell: (inout Story) -> Void) -> Set<String> {
    var story = Story()
    tell(&story)
    return story.broken
  }

  mutating func wait(_ time: Double) { seconds += time }

  mutating func write(_ fact: Fact) {
    seconds += 1
    events.append(Event(at: Moment(seconds: seconds), fact))
  }

  @discardableResult
  mutating func invoke(_ call: Call, by device: Int = 0, to place: Place = Place("alpha")) -> OperationNumber {
    operations += 1
    write(.invoked(OperationNumber(operations), call: call, by: DeviceIndex(device), to: place))
    return OperationNumber(operations)
  }

  mutating func answer(_ operation: OperationNumber, _ answer: Reply = .done) {
    write(.answered(operation, answer: answer))
  }

  mutating func saw(_ sight: Sight) { write(.saw(sight)) }

  // MARK: - Words for what happens often

  @discardableResult
  mutating func submit(_ message: Int, by sender: Int = 0, to recipients: [Int] = [1]) -> OperationNumber {
    invoke(
      .submit(
        message: MessageNumber(message), recipients: recipients.map { DeviceIndex($0) }, digest: UInt64(message)),
      by: sender)
  }

  mutating func accept(_ message: Int, by sender: Int = 0, to recipients: [Int] = [1]) {
    answer(submit(message, by: sender, to: recipients))
  }

  mutating func deliver(_ message: Int, from sender: Int? = 0, to device: Int = 1, over connection: Int = 1) {
    saw(
      .delivered(
        MessageNumber(message), from: sender.map { DeviceIndex($0) }, to: DeviceIndex(device), digest: UInt64(message),
        over: ConnectionNumber(connection)))
  }

  mutating func acknowledge(_ message: Int, by device: Int = 1) {
    saw(.acknowledging(MessageNumber(message), by: DeviceIndex(device)))
  }

  mutating func receipt(_ message: Int, of device: Int = 1, to sender: Int = 0) {
    saw(.receipt(MessageNumber(message), of: DeviceIndex(device), to: DeviceIndex(sender)))
  }

  mutating func connect(_ connection: Int, of device: Int = 1) {
    answer(invoke(.connect(ConnectionNumber(connection)), by: device))
  }

  mutating func end(_ connection: Int, of device: Int = 1, code: Int? = nil) {
    saw(.ended(ConnectionNumber(connection), of: DeviceIndex(device), code: code))
  }

  mutating func fault(_ kind: FaultKind, at site: String = "alpha", link: Link? = nil, lasting: Double = 1) {
    faults += 1
    saw(.faultBegan(faults, kind, at: site, link: link))
    seconds += lasting
    saw(.faultEnded(faults))
  }
}

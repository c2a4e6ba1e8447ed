import ArgumentParser
import RelayConfiguration
import RelayCore
import Storage

extension StorageCommand {
  /// The operator's word for a clock that is not believed.
  struct Clock: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "clock",
      abstract: "Show whether the store's clock is believed, or say that it is right.",
      discussion: """
        The store remembers the last time that maintenance saw. A clock that is more than a day ahead of it is not \
        believed, and nothing is removed by its age: messages, attachments, and what waits for peers stay. So it is when a \
        clock was set wrong, and also when all relays were off for longer than a day. Exits with 1 while the clock is not \
        believed. --accept says that it is right as it is: what is past its time is then removed by and by, a day's worth \
        in each hourly run.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "The store's clock is right: go on from its present time.") var accept = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      var isBelieved = true
      try await withStorage(configuration, .existing, noting: accept ? AuditNote("storage clock --accept") : nil) {
        storage in
        let reading = accept ? try await storage.acceptClock() : try await storage.clockReading()
        isBelieved = reading.time.believes(reading.now)
        try show(Result(reading), reading)
      }
      if !isBelieved { throw ExitCode.failure }
    }

    private func show(_ result: Result, _ reading: ClockReading) throws {
      if json { return try Output.json(result) }
      Output.line("The store's clock:  \(reading.now.iso8601)")
      Output.line("Last seen time:     \(reading.time.seen.millis > 0 ? reading.time.seen.iso8601 : "none yet")")
      Output.line("Removal has come to \(reading.time.cleared.millis > 0 ? reading.time.cleared.iso8601 : "none yet")")
      if accept {
        return Output.line("Accepted: relays take note within seconds, and remove by age in their next hourly run.")
      }
      if let fault = reading.fault { Output.line("\(fault.text). \(fault.remedy)") }
    }

    private struct Result: Encodable {
      let clock: Int64
      let seen: Int64
      let cleared: Int64
      let isBelieved: Bool
      /// The clock's lead over the last seen time; 0 while it is believed.
      let leadSeconds: Int64

      init(_ reading: ClockReading) {
        clock = reading.now.millis
        seen = reading.time.seen.millis
        cleared = reading.time.cleared.millis
        isBelieved = reading.time.believes(reading.now)
        leadSeconds = reading.time.lead(of: reading.now).components.seconds
      }
    }
  }
}

extension ClockReading {
  /// The fault of the store's clock, and the remedy; nil for none.
  var fault: (text: String, remedy: String)? { time.fault(of: now, "the store's clock") }
}

extension SeenTime {
  func fault(of clock: Timestamp, _ whose: String) -> (text: String, remedy: String)? {
    let (lead, lag) = (lead(of: clock), lag(of: clock))
    if lead > .zero {
      return (
        "\(whose) is \(Self.days(lead)) ahead of the last time that the relays saw, \(seen.iso8601): it is not "
          + "believed, and nothing is removed by its age", ClockWords.remedy
      )
    }
    guard lag > .zero else { return nil }
    return (
      "\(whose) is \(Self.days(lag)) behind the last time that the relays saw, \(seen.iso8601)",
      "Mend the clock if it is wrong. If it is right, and was wrong before, run `relay storage clock --accept`: else a "
        + "clock that is ahead again will be believed."
    )
  }

  private static func days(_ duration: Duration) -> String {
    let days = duration / .seconds(86_400)
    return "\((days * 10).rounded() / 10) days"
  }
}

import Foundation
import Logging
import RelayConfiguration
import RelayCore
import Synchronization

/// Sends every logger to standard error, in the configured format and from the configured level on.
enum LogOutput {
  private static let present = Mutex(Logger.Level.info)

  static var level: Logger.Level { present.withLock { $0 } }

  /// Applies to all loggers at once, except those with a level of their own.
  static func setLevel(_ level: LogLevel) {
    let level = Logger.Level(rawValue: level.rawValue) ?? .info
    present.withLock { $0 = level }
  }

  static func bootstrap(_ settings: RelayConfiguration.Log) {
    setLevel(settings.level)
    let format = settings.format
    LoggingSystem.bootstrap { label in
      switch format {
      case .text: CommonLevel(handler: StreamLogHandler.standardError(label: label))
      case .json: CommonLevel(handler: JSONLogHandler(label: label))
      }
    }
  }
}

/// Follows `LogOutput.level`, which may change, unless its logger has a level of its own. Keeps its metadata for each
/// line as it comes: the handler for text would put it into words with every change, so with every request.
private struct CommonLevel<Handler: LogHandler>: LogHandler {
  private var handler: Handler
  private var own: Logger.Level?
  var metadata: Logger.Metadata = [:]

  init(handler: Handler) { self.handler = handler }

  var logLevel: Logger.Level {
    get { own ?? LogOutput.level }
    set { own = newValue }
  }
  var metadataProvider: Logger.MetadataProvider? {
    get { handler.metadataProvider }
    set { handler.metadataProvider = newValue }
  }
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var event = event
    var all = metadata.merging(event.metadata ?? [:]) { $1 }
    // Ours goes on to peers; Hummingbird's own would be a second one.
    all["hb.request.id"] = nil
    if let id = RequestID.current { all["request"] = "\(id)" }
    event.metadata = all
    handler.log(event: event)
  }
}

/// One JSON object a line: `time`, `level`, `logger`, `message`, and the metadata as properties of `metadata`.
struct JSONLogHandler: LogHandler {
  var logLevel = Logger.Level.info
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  private let label: String

  init(label: String) { self.label = label }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  private struct Line: Encodable {
    let time: String
    let level: String
    let logger: String
    let message: String
    let metadata: [String: String]
  }

  func log(event: LogEvent) {
    var all = metadata
    all.merge(metadataProvider?.get() ?? [:]) { $1 }
    all.merge(event.metadata ?? [:]) { $1 }
    let line = Line(
      time: Date.now.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)), level: event.level.rawValue,
      logger: label, message: event.message.description, metadata: all.mapValues(\.description))
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // A log line that cannot be written has nowhere to be reported.
    guard let data = try? encoder.encode(line) else { return }
    try? FileHandle.standardError.write(contentsOf: data + [0x0A])
  }
}

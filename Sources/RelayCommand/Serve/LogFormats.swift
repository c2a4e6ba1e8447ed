import Foundation
import Logging
import RelayConfiguration

/// Sends every logger to standard error, in the configured format.
enum LogOutput {
  static func bootstrap(_ settings: RelayConfiguration.Log) {
    let level = Logger.Level(rawValue: settings.level.rawValue) ?? .info
    let format = settings.format
    LoggingSystem.bootstrap { label in
      var handler: any LogHandler =
        switch format {
        case .text: StreamLogHandler.standardError(label: label)
        case .json: JSONLogHandler(label: label)
        }
      handler.logLevel = level
      return handler
    }
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

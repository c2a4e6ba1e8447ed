/// Look-ups over a directory in parts beside those in one process, of the same contacts.
struct PartsFigures: Sendable, Encodable {
  /// One way of holding the directory.
  struct Way: Sendable, Encodable {
    let perSecond: Double
    let p50Millis: Double
    let p99Millis: Double
    /// CPU time of all server processes, in milliseconds a look-up.
    let cpuMillis: Double

    init(_ result: LoadResult) {
      perSecond = result.perSecond
      p50Millis = result.latency.quantile(0.5).millis
      p99Millis = result.latency.quantile(0.99).millis
      cpuMillis = result.usage.cpuSeconds.values.reduce(0, +) / Double(result.measured) * 1000
    }
  }

  let entries: Int
  let tokensPerRequest: Int
  let parts: Int
  /// Look-ups under way at once.
  let connections: Int
  let whole: Way
  let inParts: Way
  /// CPU time of a look-up over the parts, to that of one in a single process.
  let cpuRatio: Double

  init(entries: Int, tokensPerRequest: Int, parts: Int, connections: Int, whole: Way, inParts: Way) {
    self.entries = entries
    self.tokensPerRequest = tokensPerRequest
    self.parts = parts
    self.connections = connections
    self.whole = whole
    self.inParts = inParts
    cpuRatio = inParts.cpuMillis / whole.cpuMillis
  }
}

/// Contacts that were looked up over HTTP.
struct LookUpFigures: Sendable, Encodable {
  /// The entries of the directory.
  let entries: Int
  let tokensPerRequest: Int
  /// The share of a request's tokens that are known.
  let knownShare: Double
  let tokensPerSecond: Double
  /// CPU time of all server processes.
  let cpuSecondsPerMillion: Double
  let tokensPerCPUSecond: Double
  let hash: HashFigures
  /// Tokens for a CPU second of ours, to those of the hash, its client included.
  let ratio: Double

  init(_ scenario: Scenario, _ result: LoadResult, entries: Int, knownShare: Double, hash: HashFigures) {
    self.entries = entries
    tokensPerRequest = scenario.tokensPerRequest
    self.knownShare = knownShare
    let tokens = Double(result.measured * tokensPerRequest)
    let cpuSeconds = result.usage.cpuSeconds.values.reduce(0, +)
    tokensPerSecond = tokens / result.seconds
    cpuSecondsPerMillion = cpuSeconds / tokens * 1e6
    tokensPerCPUSecond = tokens / cpuSeconds
    self.hash = hash
    ratio = tokensPerCPUSecond / hash.tokensPerCPUSecond
  }
}

/// `HMGET` of the same contacts.
struct HashFigures: Sendable, Encodable {
  let tokensPerSecond: Double
  let serverCPUSecondsPerMillion: Double
  let clientCPUSecondsPerMillion: Double
  /// Of both.
  let tokensPerCPUSecond: Double

  init(tokens: Int, seconds: Double, serverSeconds: Double, clientSeconds: Double) {
    let tokens = Double(tokens)
    tokensPerSecond = tokens / seconds
    serverCPUSecondsPerMillion = serverSeconds / tokens * 1e6
    clientCPUSecondsPerMillion = clientSeconds / tokens * 1e6
    tokensPerCPUSecond = tokens / (serverSeconds + clientSeconds)
  }
}

package import RelayCore

/// Facts that a Redis tells of itself, for `relay doctor`.
package struct RedisDiagnosis: Sendable, Equatable {
  /// nil when the server does not let us ask.
  package let version: String?
  /// 0 for no bound; nil when the server does not let us ask.
  package let memoryMax: Int64?
  /// `noeviction`, `allkeys-lru`, ...
  package let evictionPolicy: String?
  /// The server's clock.
  package let time: Timestamp
  /// The protocol that encrypts the connection (`TLSv1.3`); nil in clear.
  package let encryption: String?
  /// nil where no sentinels are asked.
  package let sentinels: SentinelDiagnosis?
  /// nil where Redis is no cluster.
  package let cluster: ClusterDiagnosis?

  /// Whether keys may vanish before their time: limits forget then what they counted, and the epoch's witness its
  /// epoch.
  package var mayEvict: Bool { memoryMax != 0 && evictionPolicy != nil && evictionPolicy != "noeviction" }
}

extension RedisCoordination {
  /// - Returns: nil when Redis does not answer.
  package func diagnose() async -> RedisDiagnosis? {
    guard case .array(let time)? = await commands.call(RedisCommand("TIME"), key: prefix), time.count == 2,
      let seconds = time[0].text.flatMap({ Int64($0) }), let micros = time[1].text.flatMap({ Int64($0) })
    else { return nil }
    let info = await commands.call(RedisCommand("INFO", "server"), key: prefix)?.text ?? ""
    return RedisDiagnosis(
      version: info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("redis_version:") }
        .map { String($0.dropFirst("redis_version:".count)) },
      memoryMax: await setting("maxmemory").flatMap { Int64($0) }, evictionPolicy: await setting("maxmemory-policy"),
      time: Timestamp(millis: seconds * 1000 + micros / 1000), encryption: commands.encryption,
      sentinels: await sentinels?.diagnose(), cluster: clusterDiagnosis)
  }

  private var clusterDiagnosis: ClusterDiagnosis? {
    if case .cluster(let cluster) = commands { cluster.diagnosis } else { nil }
  }

  /// - Returns: nil when the server does not let us ask, as some that are rented do.
  private func setting(_ name: String) async -> String? {
    guard case .array(let pair)? = await commands.call(RedisCommand("CONFIG", "GET", name), key: prefix),
      pair.count == 2
    else {
      return nil
    }
    return pair[1].text
  }
}

extension RedisReply {
  /// nil for what is no text.
  fileprivate var text: String? {
    switch self {
    case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
    case .status(let text): text
    default: nil
    }
  }
}

import RelayCore

/// The rows that an append's statement returns: `account, device, fingerprint, sequence, others`.
enum PostgresAppended {
  /// The accounts of `watched`, in rising order: the statement looks a row's up by halves.
  static func accounts(_ watched: Set<DeviceAddress>) -> PostgresParameter {
    PostgresParameter(each: Set(watched.lazy.map(\.account.column)).sorted())
  }

  /// One more than a watch is told of.
  static let othersLimit = Int64(AppendedPlace.othersMax + 1)

  private struct Key: Hashable {
    let mailbox: DeviceAddress
    let fingerprint: Fingerprint
  }

  /// - Returns: the places in `watched` mailboxes, by the indices of `envelopes`. None where a row cannot be read: all
  ///   is stored, and is found in its mailbox.
  static func places(
    of envelopes: [Envelope], in watched: Set<DeviceAddress>, _ result: PostgresResult
  ) -> [Int: AppendedPlace] {
    guard !watched.isEmpty else { return [:] }
    var indices: [Key: Int] = [:]
    for (index, envelope) in envelopes.enumerated() where watched.contains(envelope.destination) {
      let key = Key(mailbox: envelope.destination, fingerprint: envelope.fingerprint)
      // The first of equal ones is the one that was stored.
      if indices[key] == nil { indices[key] = index }
    }
    var places: [Int: AppendedPlace] = [:]
    do throws(StoreError) {
      for row in result.rows {
        var row = result.cursor(row: row)
        let mailbox = DeviceAddress(try row.account(), try row.device())
        guard watched.contains(mailbox) else { continue }
        guard let index = indices[Key(mailbox: mailbox, fingerprint: try row.fingerprint())] else { continue }
        let sequence = try row.bigint()
        let others = try row.bigints()
        places[index] = AppendedPlace(
          sequence: sequence, others: others.count > AppendedPlace.othersMax ? nil : others)
      }
      return places
    } catch {
      return [:]
    }
  }
}

import RelayCore

/// The rows that an append's statement returns: `account, device, fingerprint, sequence, others`; `others` is NULL in a
/// distributed store.
enum PostgresAppended {
  private struct Key: Hashable {
    let mailbox: DeviceAddress
    let fingerprint: Fingerprint
  }

  /// - Parameter results: of the append, and of `PostgresAppend.othersStep`, if it was asked.
  /// - Returns: the places in `watched` mailboxes, by the indices of `envelopes`. None where a row cannot be read: all
  ///   is stored, and is found in its mailbox.
  static func places(
    of envelopes: [Envelope], in watched: Set<DeviceAddress>, _ results: [PostgresResult]
  ) -> [Int: AppendedPlace] {
    guard let result = results.first, !watched.isEmpty else { return [:] }
    var indices: [Key: Int] = [:]
    for (index, envelope) in envelopes.enumerated() where watched.contains(envelope.destination) {
      let key = Key(mailbox: envelope.destination, fingerprint: envelope.fingerprint)
      // The first of equal ones is the one that was stored.
      if indices[key] == nil { indices[key] = index }
    }
    var places: [Int: AppendedPlace] = [:]
    do throws(StoreError) {
      let asked = try others(in: results.dropFirst().first)
      for row in result.rows {
        var row = result.cursor(row: row)
        let mailbox = DeviceAddress(try row.account(), try row.device())
        guard watched.contains(mailbox) else { continue }
        guard let index = indices[Key(mailbox: mailbox, fingerprint: try row.fingerprint())] else { continue }
        let sequence = try row.bigint()
        let known = asked.map { $0[MailboxPlace(mailbox, sequence: sequence)] ?? [] }
        let others = if let known { known } else { try row.bigints() }
        places[index] = AppendedPlace(
          sequence: sequence, others: others.count > AppendedPlace.othersMax ? nil : others)
      }
      return places
    } catch {
      return [:]
    }
  }

  /// - Returns: nil if they were not asked for by themselves.
  private static func others(in result: PostgresResult?) throws(StoreError) -> [MailboxPlace: [Int64]]? {
    guard let result else { return nil }
    var others: [MailboxPlace: [Int64]] = [:]
    for row in result.rows {
      var row = result.cursor(row: row)
      let mailbox = DeviceAddress(try row.account(), try row.device())
      others[MailboxPlace(mailbox, sequence: try row.bigint())] = try row.bigints()
    }
    return others
  }
}

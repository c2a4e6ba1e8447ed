package import RelayCore

extension PostgresStorage {
  package func addNotificationGroup(
    _ group: NotificationGroup, of account: NotificationUser
  ) async throws(StoreError) -> GroupAddition {
    let nameKey = PostgresParameter(NotificationGroup.key(group.name))
    let shortKey = PostgresParameter(group.shortName.map { NotificationGroup.key($0) })
    let owner = PostgresParameter(account)
    let results = try await write([
      Self.keepAccount(account),
      // A name of one group may not be the short name of another either: it would hide it.
      PostgresStep(
        "add_notification_group",
        """
        WITH made AS (
          INSERT INTO notification_groups (account, name_key, name, short_key, short_name)
          SELECT a.name, \(nameKey), \(group.name), \(shortKey), \(group.shortName) FROM notification_accounts AS a
          WHERE a.name = \(owner) AND NOT EXISTS (
            SELECT FROM notification_groups AS g WHERE g.account = \(owner)
              AND (g.name_key = \(nameKey) OR g.short_key = \(nameKey) OR g.name_key = \(shortKey)
                OR g.short_key = \(shortKey))
          )
          ON CONFLICT DO NOTHING
          RETURNING account, name_key
        ),
        filled AS (
          INSERT INTO notification_members (account, group_key, recipient)
          SELECT DISTINCT made.account, made.name_key, m.recipient
          FROM made CROSS JOIN unnest(\(each: group.members)) AS m (recipient)
        )
        SELECT EXISTS (SELECT FROM made)
        """),
    ])
    let made = try results.last?.first { (row) throws(StoreError) in try row.boolean() }
    guard results.first?.rowCount == 1, let made else { return .unknownAccount }
    return made ? .added : .taken
  }

  package func notificationGroups(of account: NotificationUser) async throws(StoreError) -> [NotificationGroup] {
    let result = try await read(
      "notification_groups",
      """
      SELECT g.name, g.short_name, array_to_string(array(
          SELECT m.recipient FROM notification_members AS m
          WHERE m.account = g.account AND m.group_key = g.name_key ORDER BY m.recipient
        ), ',')
      FROM notification_groups AS g WHERE g.account = \(account) ORDER BY g.name_key
      """)
    return try result.all(NotificationGroup.init(row:))
  }

  package func removeNotificationGroup(_ name: String, of account: NotificationUser) async throws(StoreError) -> Bool {
    let result = try await write(
      "remove_notification_group",
      "DELETE FROM notification_groups WHERE account = \(account) AND name_key = \(NotificationGroup.key(name))")
    return result.affectedRows == 1
  }

  package func changeMembers(
    of group: String, of account: NotificationUser, adding added: [RecipientNumber], removing removed: [RecipientNumber]
  ) async throws(StoreError) -> Bool {
    let key = NotificationGroup.key(group)
    let results = try await write([
      PostgresStep(
        "lock_notification_group",
        "SELECT 1 FROM notification_groups WHERE account = \(account) AND name_key = \(key) FOR NO KEY UPDATE"),
      PostgresStep(
        "remove_members",
        """
        DELETE FROM notification_members
        WHERE account = \(account) AND group_key = \(key) AND recipient = ANY (\(each: removed))
        """),
      PostgresStep(
        "add_members",
        """
        INSERT INTO notification_members (account, group_key, recipient)
        SELECT g.account, g.name_key, m.recipient
        FROM notification_groups AS g CROSS JOIN unnest(\(each: added)) AS m (recipient)
        WHERE g.account = \(account) AND g.name_key = \(key)
        ON CONFLICT DO NOTHING
        """),
    ])
    return results.first?.rowCount == 1
  }

  /// Changes to counted rows take turns at the account, and so do sends and changes of the recipients that they
  /// resolve.
  static func accountTurn(_ account: NotificationUser) -> PostgresStep {
    PostgresStep(
      "notification_account_turn", "SELECT 1 FROM notification_accounts WHERE name = \(account) FOR NO KEY UPDATE")
  }

  /// Returns a row when there is such an account, which then stays to the end of the transaction.
  static func keepAccount(_ account: NotificationUser) -> PostgresStep {
    PostgresStep(
      "keep_notification_account", "SELECT 1 FROM notification_accounts WHERE name = \(account) FOR KEY SHARE")
  }
}

extension NotificationGroup {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let (name, shortName, members) = (try row.text(), row.optionalText(), try row.text())
    self.init(
      name: name, shortName: shortName,
      members: members.split(separator: ",").compactMap { RecipientNumber(text: $0) })
  }
}

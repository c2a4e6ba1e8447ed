package import RelayCore

extension PostgresStorage {
  package func addNotificationGroup(
    _ group: NotificationGroup, of account: NotificationUser
  ) async throws(StoreError) -> GroupAddition {
    let results = try await write([
      Self.keepAccount(account),
      // A name of one group may not be the short name of another either: it would hide it.
      PostgresStep(
        .prepared(
          "add_notification_group",
          """
          WITH made AS (
            INSERT INTO notification_groups (account, name_key, name, short_key, short_name)
            SELECT a.name, $2::text, $3::text, $4::text, $5::text FROM notification_accounts AS a
            WHERE a.name = $1::text AND NOT EXISTS (
              SELECT FROM notification_groups AS g WHERE g.account = $1::text
                AND (g.name_key = $2::text OR g.short_key = $2::text OR g.name_key = $4::text OR g.short_key = $4::text)
            )
            ON CONFLICT DO NOTHING
            RETURNING account, name_key
          ),
          filled AS (
            INSERT INTO notification_members (account, group_key, recipient)
            SELECT DISTINCT made.account, made.name_key, m.recipient FROM made CROSS JOIN unnest($6::bigint[]) AS m (recipient)
          )
          SELECT EXISTS (SELECT FROM made)
          """),
        PostgresParameters {
          $0.add(text: account.text)
          $0.add(text: NotificationGroup.key(group.name))
          $0.add(text: group.name)
          $0.add(text: group.shortName.map { NotificationGroup.key($0) })
          $0.add(text: group.shortName)
          $0.add(bigints: group.members.map(\.value))
        }),
    ])
    guard let known = results.first, known.rowCount == 1, let made = results.last, made.rowCount == 1 else {
      return .unknownAccount
    }
    var row = made.cursor(row: 0)
    return try row.boolean() ? .added : .taken
  }

  package func notificationGroups(of account: NotificationUser) async throws(StoreError) -> [NotificationGroup] {
    let result = try await read(
      .prepared(
        "notification_groups",
        """
        SELECT g.name, g.short_name, array_to_string(array(
            SELECT m.recipient FROM notification_members AS m
            WHERE m.account = g.account AND m.group_key = g.name_key ORDER BY m.recipient
          ), ',')
        FROM notification_groups AS g WHERE g.account = $1::text ORDER BY g.name_key
        """), PostgresParameters { $0.add(text: account.text) })
    var groups: [NotificationGroup] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      let (name, shortName, members) = (try row.text(), row.optionalText(), try row.text())
      groups.append(
        NotificationGroup(
          name: name, shortName: shortName,
          members: members.split(separator: ",").compactMap { RecipientNumber(text: $0) }))
    }
    return groups
  }

  package func removeNotificationGroup(_ name: String, of account: NotificationUser) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "remove_notification_group", "DELETE FROM notification_groups WHERE account = $1::text AND name_key = $2::text"),
      PostgresParameters {
        $0.add(text: account.text)
        $0.add(text: NotificationGroup.key(name))
      })
    return result.affectedRows == 1
  }

  package func changeMembers(
    of group: String, of account: NotificationUser, adding added: [RecipientNumber], removing removed: [RecipientNumber]
  ) async throws(StoreError) -> Bool {
    let key = NotificationGroup.key(group)
    let results = try await write([
      PostgresStep(
        .prepared(
          "lock_notification_group",
          "SELECT 1 FROM notification_groups WHERE account = $1::text AND name_key = $2::text FOR NO KEY UPDATE"),
        PostgresParameters {
          $0.add(text: account.text)
          $0.add(text: key)
        }),
      PostgresStep(
        .prepared(
          "remove_members",
          """
          DELETE FROM notification_members
          WHERE account = $1::text AND group_key = $2::text AND recipient = ANY ($3::bigint[])
          """),
        PostgresParameters {
          $0.add(text: account.text)
          $0.add(text: key)
          $0.add(bigints: removed.map(\.value))
        }),
      PostgresStep(
        .prepared(
          "add_members",
          """
          INSERT INTO notification_members (account, group_key, recipient)
          SELECT g.account, g.name_key, m.recipient
          FROM notification_groups AS g CROSS JOIN unnest($3::bigint[]) AS m (recipient)
          WHERE g.account = $1::text AND g.name_key = $2::text
          ON CONFLICT DO NOTHING
          """),
        PostgresParameters {
          $0.add(text: account.text)
          $0.add(text: key)
          $0.add(bigints: added.map(\.value))
        }),
    ])
    return results.first?.rowCount == 1
  }

  /// Whoever changes what is counted takes turns at the account.
  static func accountTurn(_ account: NotificationUser) -> PostgresStep {
    PostgresStep(
      .prepared(
        "notification_account_turn", "SELECT 1 FROM notification_accounts WHERE name = $1::text FOR NO KEY UPDATE"),
      PostgresParameters { $0.add(text: account.text) })
  }

  /// Returns a row when there is such an account, which then stays to the end of the transaction.
  static func keepAccount(_ account: NotificationUser) -> PostgresStep {
    PostgresStep(
      .prepared(
        "keep_notification_account", "SELECT 1 FROM notification_accounts WHERE name = $1::text FOR KEY SHARE"),
      PostgresParameters { $0.add(text: account.text) })
  }
}

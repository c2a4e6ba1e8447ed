import GRDB
package import RelayCore

extension SQLiteStorage {
  package func addNotificationGroup(
    _ group: NotificationGroup, of account: NotificationUser
  ) async throws(StoreError) -> GroupAddition {
    try await write { db in
      guard try db.row("SELECT 1 FROM notification_accounts WHERE name = \(account)") != nil else {
        return .unknownAccount
      }
      let (key, short) = (NotificationGroup.key(group.name), group.shortName.map { NotificationGroup.key($0) })
      // A name of one group may not be the short name of another either: it would hide it.
      let known = try db.row(
        """
        SELECT 1 FROM notification_groups
        WHERE account = \(account)
          AND (name_key = \(key) OR short_key = \(key) OR name_key = \(short) OR short_key = \(short))
        """)
      guard known == nil else { return .taken }
      try db.run(
        """
        INSERT INTO notification_groups (account, name_key, name, short_key, short_name)
        VALUES (\(account), \(key), \(group.name), \(short), \(group.shortName))
        """)
      try Self.add(group.members, to: key, of: account, in: db)
      return .added
    }
  }

  package func notificationGroups(of account: NotificationUser) async throws(StoreError) -> [NotificationGroup] {
    try await read { db in
      try db.rows(
        "SELECT name_key, name, short_name FROM notification_groups WHERE account = \(account) ORDER BY name_key"
      ).map { group in
        let members = try db.rows(
          """
          SELECT recipient FROM notification_members
          WHERE account = \(account) AND group_key = \(group.text(0)) ORDER BY recipient
          """
        ).map { try Fields.valid(RecipientNumber($0.integer(0))) }
        return try NotificationGroup(name: group.text(1), shortName: group.optionalText(2), members: members)
      }
    }
  }

  package func removeNotificationGroup(_ name: String, of account: NotificationUser) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run(
        "DELETE FROM notification_groups WHERE account = \(account) AND name_key = \(NotificationGroup.key(name))")
      return db.changesCount == 1
    }
  }

  package func changeMembers(
    of group: String, of account: NotificationUser, adding added: [RecipientNumber], removing removed: [RecipientNumber]
  ) async throws(StoreError) -> Bool {
    let key = NotificationGroup.key(group)
    return try await write { db in
      let known = try db.row("SELECT 1 FROM notification_groups WHERE account = \(account) AND name_key = \(key)")
      guard known != nil else { return false }
      for number in removed {
        try db.run(
          """
          DELETE FROM notification_members WHERE account = \(account) AND group_key = \(key) AND recipient = \(number)
          """)
      }
      try Self.add(added, to: key, of: account, in: db)
      return true
    }
  }

  private static func add(
    _ members: [RecipientNumber], to group: String, of account: NotificationUser, in db: Database
  ) throws {
    for number in members {
      try db.run(
        """
        INSERT INTO notification_members (account, group_key, recipient)
        VALUES (\(account), \(group), \(number)) ON CONFLICT DO NOTHING
        """)
    }
  }
}

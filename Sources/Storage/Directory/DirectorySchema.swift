// The tables of contacts, of the listing that peers read, and of the directory that processes follow.

/// The triggers stand in `DirectoryTriggers`. Times are milliseconds since 1970.
///
/// In SQLite writers take turns: the order of ids in `directory_changes` is that of the commits.
enum DirectorySchema {
  static let postgres = [
    // A row is a peer's claim. `unlisted` is NULL while the peer lists the contact; otherwise the row is a tombstone,
    // and `unlisted` says since when. `since` is when the peer listed the contact first, and no refreshing changes it.
    // The answers of a peer that is asked instead of copied are kept as tombstones too; each answer renews them.
    """
    CREATE TABLE peer_contacts (
      peer text COLLATE "C" NOT NULL,
      token bytea NOT NULL,
      supports_sms boolean NOT NULL,
      voice boolean NOT NULL,
      pass bigint NOT NULL,
      since bigint NOT NULL DEFAULT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint,
      unlisted bigint,
      PRIMARY KEY (peer, token)
    )
    """,
    "CREATE INDEX peer_contacts_by_token ON peer_contacts (token, peer)",
    "CREATE INDEX peer_contacts_unlisted ON peer_contacts (peer, unlisted) WHERE unlisted IS NOT NULL",
    "CREATE INDEX accounts_by_listing_revision ON accounts (listing_revision) WHERE listing_revision > 0",
    "CREATE INDEX accounts_listed ON accounts (token, account) WHERE was_listed",
    "CREATE INDEX accounts_hidden ON accounts (token) WHERE NOT (active AND discoverable)",
    // How many claims a peer has, and how many of them are tombstones. Counting the rows at each round would take
    // longer than a statement may, where a peer lists ten million. Each peer has its row, of its own so that nobody
    // who wants the peer waits for it. A change of contacts takes the peer's row, then this one, then theirs
    // (`PostgresStorage.contactLocks`). `revision` rises with every change: a reader that counts rows one by one finds
    // out by it whether they have changed meanwhile.
    """
    CREATE TABLE contact_counts (
      peer text COLLATE "C" NOT NULL,
      contacts bigint NOT NULL,
      revision bigint NOT NULL DEFAULT 0,
      unlisted bigint NOT NULL DEFAULT 0,
      PRIMARY KEY (peer)
    )
    """,
    // The feed by which every process keeps the directory in memory (docs/directory.md). A change names a token, or a
    // peer, and not its state: a reader asks for the state that stands then, and may read a change twice. So writers
    // take no turns here: a change is keyed by its transaction, and a reader begins anew at the oldest that may still
    // commit (`PostgresDirectoryFeed`).
    """
    CREATE TABLE directory_changes (
      changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
      id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
      at bigint NOT NULL DEFAULT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint,
      token bytea,
      peer text COLLATE "C",
      PRIMARY KEY (changed, id)
    )
    """,
    // Tokens of deleted accounts that peers have listed: they stand in the listing as inactive until `ended` is long
    // ago.
    """
    CREATE TABLE unlisted_tokens (
      token bytea NOT NULL,
      listing_revision bigint NOT NULL,
      ended bigint NOT NULL,
      PRIMARY KEY (token)
    )
    """,
    "CREATE INDEX unlisted_tokens_by_revision ON unlisted_tokens (listing_revision)",
    // Oblivious look-up: `output` is 8 bytes, and `key` a number for the key that it was made under.
    """
    CREATE TABLE oblivious_outputs (
      token bytea NOT NULL,
      key bigint NOT NULL,
      output bytea NOT NULL,
      PRIMARY KEY (token)
    )
    """,
    "CREATE INDEX oblivious_outputs_by_output ON oblivious_outputs (key, output)",
    // No row before the first writing. `generation`, `revision` and `position` are a place in the feed, and `followed`
    // is when it was last read to its end, in milliseconds.
    """
    CREATE TABLE oblivious_progress (
      singleton boolean NOT NULL DEFAULT true CHECK (singleton),
      key bigint NOT NULL,
      generation bigint NOT NULL,
      revision bigint NOT NULL,
      position bigint NOT NULL,
      ranges_done integer NOT NULL,
      swept boolean NOT NULL,
      followed bigint NOT NULL,
      step bigint NOT NULL,
      PRIMARY KEY (singleton)
    )
    """,
    // The directory: ours first, otherwise the peer's whose claim stands for longest, while it lists the token. A
    // number that has an account here is no peer's, though the account is not found. Whether a peer's contacts are
    // part of the directory is asked of each row, and not joined: a plan that began with the peers would try every one
    // of them for every token.
    """
    CREATE VIEW directory_entries AS
    SELECT a.token, NULL::text COLLATE "C" AS peer, a.supports_sms, a.voice
    FROM accounts AS a WHERE a.active AND a.discoverable
    UNION ALL
    SELECT c.token, c.peer, c.supports_sms, c.voice
    FROM peer_contacts AS c
    WHERE c.unlisted IS NULL
      AND (SELECT p.state = 'active' AND p.contacts_mode = 'copy' FROM peers AS p WHERE p.name = c.peer)
      AND NOT EXISTS (SELECT FROM accounts AS o WHERE o.token = c.token)
      AND NOT EXISTS (
        SELECT FROM peer_contacts AS e
        WHERE e.token = c.token AND (e.since, e.peer) < (c.since, c.peer)
          AND (SELECT q.state = 'active' AND q.contacts_mode <> 'none' FROM peers AS q WHERE q.name = e.peer))
    """,
  ]

  static let embedded = """
    CREATE TABLE peer_contacts (
      peer TEXT NOT NULL REFERENCES peers (name) ON DELETE CASCADE,
      token BLOB NOT NULL,
      supports_sms INTEGER NOT NULL,
      voice INTEGER NOT NULL,
      pass INTEGER NOT NULL,
      since INTEGER NOT NULL DEFAULT 0,
      unlisted INTEGER,
      PRIMARY KEY (peer, token)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX peer_contacts_by_token ON peer_contacts (token);
    CREATE INDEX peer_contacts_unlisted ON peer_contacts (peer, unlisted) WHERE unlisted IS NOT NULL;
    CREATE INDEX accounts_by_listing_revision ON accounts (listing_revision) WHERE listing_revision > 0;
    CREATE INDEX accounts_listed ON accounts (token, account) WHERE was_listed;

    CREATE TABLE contact_counts (
      peer TEXT PRIMARY KEY REFERENCES peers (name) ON DELETE CASCADE,
      contacts INTEGER NOT NULL,
      unlisted INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE directory_changes (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at INTEGER NOT NULL DEFAULT (1000 * CAST(strftime('%s', 'now') AS INTEGER)),
      token BLOB,
      peer TEXT
    ) STRICT;

    CREATE TABLE unlisted_tokens (
      token BLOB PRIMARY KEY,
      listing_revision INTEGER NOT NULL,
      ended INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX unlisted_tokens_by_revision ON unlisted_tokens (listing_revision);

    CREATE TABLE oblivious_outputs (
      token BLOB PRIMARY KEY,
      key INTEGER NOT NULL,
      output BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX oblivious_outputs_by_output ON oblivious_outputs (key, output);

    CREATE TABLE oblivious_progress (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      key INTEGER NOT NULL,
      generation INTEGER NOT NULL,
      revision INTEGER NOT NULL,
      position INTEGER NOT NULL,
      ranges_done INTEGER NOT NULL,
      swept INTEGER NOT NULL,
      followed INTEGER NOT NULL,
      step INTEGER NOT NULL
    ) STRICT;

    CREATE VIEW directory_entries AS
    SELECT a.token, NULL AS peer, a.supports_sms, a.voice FROM accounts AS a WHERE a.active AND a.discoverable
    UNION ALL
    SELECT c.token, c.peer, c.supports_sms, c.voice FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
    WHERE c.unlisted IS NULL AND p.state = 'active' AND p.contacts_mode = 'copy'
      AND NOT EXISTS (SELECT 1 FROM accounts AS o WHERE o.token = c.token)
      AND NOT EXISTS (
        SELECT 1 FROM peer_contacts AS e JOIN peers AS q ON q.name = e.peer
        WHERE e.token = c.token AND q.state = 'active' AND q.contacts_mode <> 'none'
          AND (e.since, e.peer) < (c.since, c.peer));
    """
}

// The one table of keys. What reads the configuration, what finds unknown keys, what `relay check` prints and the
// test of docs/configuration.md all go by it.

import RelayCore

enum Keys {
  static let name = Setting(
    "name", .relayName, default: "local", "This operator's relay name, as peers know it.")

  static let allowInsecure = Setting(
    "allow-insecure", .insecurities, default: "none",
    "What the internet may reach although it is not safe there: `plain-http`, `operator-listener`, `log-sender`, "
      + "`development`, comma-separated.")

  static let clientHost = Setting("client.host", .host, default: "127.0.0.1", "Where the client API listens.")
  static let clientPort = Setting("client.port", .port, default: "8080", "Its port; 0 takes any free one.")
  static let clientCertificate = OptionalSetting(
    "client.tls.certificate", .path, "PEM certificate chain of the client API; reloaded when the file changes.")
  static let clientKey = OptionalSetting(
    "client.tls.key", .path, "PEM private key to it; reloaded when the file changes.")

  static let clientTrustedProxies = Setting(
    "client.trusted-proxies", .addressRanges, default: "none",
    "Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed: addresses or CIDR ranges, comma-separated.")

  static let clientOrigins = Setting(
    "client.origins", .origins, default: "none",
    "Web pages that may use the client API from a browser: origins as `https://HOST[:PORT]`, comma-separated, or `all`."
  )

  static let clientConnectionsMax = Setting(
    "client.connections-max", .whole(10...1_000_000), default: "20000",
    "Connections of clients that one process holds; further ones wait to be accepted.")
  static let clientConnectionsShare = Setting(
    "client.connections-share-percent", .whole(1...100), default: "25",
    "How many of these one address (of IPv6 a /64) may hold, WebSockets not counted; trusted proxies are not bounded.")
  static let webSocketLogin = Setting(
    "client.websocket.login", .choice(WebSocketDialect.self), default: "protobuf",
    "What WebSockets opened with `login=` speak: `protobuf`, or `json` for clients of the years before it.")
  static let webSocketIdle = Setting(
    "client.websocket.idle-seconds", .whole(5...3600), default: "90",
    "A WebSocket from which nothing comes for so long is closed.")

  static let federationHost = OptionalSetting(
    "federation.host", .host, default: "by federation.url",
    "Where the listener for peers listens; not given, at every address, and where `federation.url` names loopback there."
  )
  static let federationPort = OptionalSetting(
    "federation.port", .port, default: "none (= off)", "Its port; mutual TLS, HTTP/2.")
  static let federationURL = OptionalSetting(
    "federation.url", .secureOrigin, "Where peers reach us: `https://HOST[:PORT]`.")
  static let federationAllowPrivate = Setting(
    "federation.allow-private", .boolean, default: "false",
    "Lets URLs of peers lead to loopback and private addresses, as they always may where the host of `federation.url` is one."
  )
  static let federationDirectory = Setting(
    "federation.directory", .path, default: "relay-data/federation",
    "Our CA, leaf certificates and keys, as `relay ca` writes them.")
  static let directoryInterval = Setting(
    "federation.directory-interval", .seconds(0.05...86_400), default: "2",
    "How often each peer is asked what has changed in its listing.")
  static let contactsMax = Setting(
    "federation.contacts-max", .whole(1...100_000_000), default: "5000000",
    "Contact tokens that one peer may claim here; what it lists beyond is not taken up.")
  static let ownershipDays = Setting(
    "federation.ownership-days", .whole(1...3650), default: "30",
    "How long a contact that a peer lists no longer stays its own, so that no other peer has it.")
  static let numberClaims = Setting(
    "federation.number-claims", .choice(NumberClaims.self), default: "ignore",
    "`ignore`: who proves a number here has it, though a peer lists it. `refuse`: then 417.")
  static let federationImplicit = Setting(
    "federation.implicit", .boolean, default: "true",
    "Carries requests of clients that name no relay to the peer that has the number or the attachment.")
  static let outboxMessages = Setting(
    "federation.outbox.messages-max", .whole(1...100_000_000), default: "100000",
    "Messages that may wait for one peer, where `relay peer set NAME --hold on` lets them.")
  static let outboxBytes = Setting(
    "federation.outbox.bytes-max", .whole(1...1_000_000_000_000), default: "1073741824",
    "The bytes that they may take together.")
  static let outboxHours = Setting(
    "federation.outbox.hours", .whole(1...720), default: "72",
    "How long one waits; then its sender is told that it cannot be delivered.")

  static let operatorHost = Setting(
    "operator.host", .host, default: "127.0.0.1", "Where `/livez`, `/readyz` and `/metrics` are served.")
  static let operatorPort = Setting("operator.port", .port, default: "8081", "Its port; 0 takes any free one.")
  static let operatorReadTokens = OptionalSetting(
    "operator.read-tokens", .operatorTokens, default: "none (= off)", secrecy: .secret,
    "Who may look over the operator API: `NAME:TOKEN`, comma-separated or a line each; `openssl rand -hex 32` makes one."
  )
  static let operatorChangeTokens = OptionalSetting(
    "operator.change-tokens", .operatorTokens, default: "none", secrecy: .secret,
    "Who may change and look over it; the audit log shows the name.")

  static let storageURL = Setting(
    "storage.url", .storage, default: "sqlite:relay-data/relay.sqlite", secrecy: .password,
    "Durable storage: `sqlite:PATH` or `postgres://...` (several hosts allowed).")
  static let storageMigrate = OptionalSetting(
    "storage.migrate", .boolean, default: "true for sqlite, else false", "Run pending migrations at start.")
  static let storageStart = Setting(
    "storage.start-seconds", .seconds(0...3600), default: "60",
    "How long `relay serve` waits for a store that does not answer yet, as after a boot; until then it is not ready.")

  static let encryptionKey = OptionalSetting(
    "storage.encryption-key", .encryptionKey, secrecy: .secret,
    "Base64 of 32 random bytes: signaling keys are stored encrypted under it. Without it they are stored as they are.")
  static let formerEncryptionKey = OptionalSetting(
    "storage.encryption-key-former", .encryptionKey, secrecy: .secret,
    "The key before it: what was stored under that can still be read.")

  static let coordinationURL = Setting(
    "coordination.url", .coordination, default: "local", secrecy: .password,
    "What processes share: `local`, `redis://...`, `rediss://...` (TLS) or `redis+unix:///PATH`.")
  static let coordinationAuthority = OptionalSetting(
    "coordination.tls.ca", .path, default: "the system's",
    "PEM file of the CAs that Redis's certificate may come from; read anew at each connection.")
  static let coordinationCertificate = OptionalSetting(
    "coordination.tls.certificate", .path,
    "PEM certificate chain that we present to Redis; read anew at each connection.")
  static let coordinationKey = OptionalSetting(
    "coordination.tls.key", .path, "PEM private key to it; read anew at each connection.")

  static let attachmentsURL = Setting(
    "attachments.url", .attachments, default: "file:relay-data/attachments",
    "Where attachments are kept: `file:PATH` or `s3://BUCKET?endpoint=URL&region=NAME`.")
  static let attachmentsPublicURL = OptionalSetting(
    "attachments.public-url", .webURL, default: "the client listener's", "Base of the upload and download URLs.")
  static let s3AccessKey = OptionalSetting(
    "attachments.s3.access-key", .text, "Access key id, when attachments are kept in S3.")
  static let s3SecretKey = OptionalSetting(
    "attachments.s3.secret-key", .secret, secrecy: .secret, "The secret access key to it.")
  static let attachmentBytesMax = Setting(
    "attachments.bytes-max", .whole(1...5_000_000_000), default: "104857600", "The largest attachment, in bytes.")
  static let attachmentDays = Setting(
    "attachments.retention-days", .whole(1...3650), default: "30", "How long an attachment is kept.")
  static let attachmentAccountBytesMax = Setting(
    "attachments.account-bytes-max", .whole(1...1_000_000_000_000), default: "1073741824",
    "What the kept attachments of one account may take together, in bytes.")

  static let attachmentMark = OptionalSetting(
    "attachments.mark", .whole(1...65_535), default: "made from name",
    "What ids of attachments begin with, by which peers' clients find them here; another one, where a peer's is the same."
  )

  static let retentionDays = Setting(
    "messages.retention-days", .whole(1...3650), default: "30", "How long an unfetched message is kept.")

  static let mailboxMax = Setting(
    "messages.mailbox-max", .whole(1...1_000_000_000), default: "5000",
    "Messages that may wait for one device; further ones are refused.")
  static let mailboxSenderMax = Setting(
    "messages.mailbox-sender-max", .whole(1...1_000_000_000), default: "2000",
    "Of these, messages of one sender.")
  static let mailboxPeerPercent = Setting(
    "messages.mailbox-peer-percent", .whole(1...100), default: "50",
    "How much of a mailbox one peer may fill; all peers together take half of the rest besides.")

  static let pollSeconds = Setting(
    "messages.poll-seconds", .seconds(0.1...3600), default: "25",
    "How long a connected device that nothing woke waits before its mailbox is read all the same.")

  static let devicesMax = Setting(
    "devices.max", .whole(1...100), default: "3", "Active devices of one account; further ones cannot be linked.")

  static let verifySignatures = Setting(
    "keys.verify-signatures", .boolean, default: "true",
    "Refuses signed prekeys that the account's identity key did not sign.")

  static let verificationSender = Setting(
    "verification.sender", .choice(VerificationSender.self), default: "log", "How verification codes are sent.")
  static let codeMinutes = Setting(
    "verification.code-minutes", .whole(1...1440), default: "15", "How long a code can be used.")
  static let verificationTries = Setting(
    "verification.tries", .whole(1...100), default: "5", "Wrong tries after which a code is void.")
  static let webhookURL = OptionalSetting(
    "verification.webhook.url", .webURL, "Where the sender `webhook` posts codes.")
  static let webhookSecret = OptionalSetting(
    "verification.webhook.secret", .secret, secrecy: .secret, "The key its requests are signed with.")
  static let twilioAccount = OptionalSetting("verification.twilio.account", .text, "Account SID.")
  static let twilioToken = OptionalSetting(
    "verification.twilio.token", .secret, secrecy: .secret, "Auth token of the account.")
  static let twilioFrom = OptionalSetting("verification.twilio.from", .text, "The number or service codes come from.")

  static let twilioURL = Setting(
    "verification.twilio.url", .webURL, default: "https://api.twilio.com", "Where its REST API is.")
  static let tokenKey = OptionalSetting(
    "verification.token-key", .hexKey, secrecy: .secret,
    "Hex of the key that number tokens are made with; without it there are none.")
  static let lockDays = Setting(
    "verification.lock-days", .whole(1...365), default: "7",
    "How long after an account was last seen its registration lock holds.")

  static let pushContent = Setting(
    "push.content", .choice(PushContent.self), default: "wake-up",
    "What pushes to this relay's own devices carry: `wake-up`, or `envelope` for the message itself, encrypted.")
  static let pushExpiresHours = Setting(
    "push.expires-hours", .whole(1...720), default: "24", "How long it is worth while to wake a device for a message.")
  static let pushPauseSeconds = Setting(
    "push.pause-seconds", .seconds(0...3600), default: "10",
    "A device that was woken is not woken again for so long, unless it connects meanwhile.")
  static let apnsKeyFile = OptionalSetting(
    "push.apns.key-file", .path,
    "Apple's `.p8` key, by which this relay wakes its own devices; reloaded when it changes.")
  static let apnsKeyID = OptionalSetting("push.apns.key-id", .text, "The id of that key.")
  static let apnsTeamID = OptionalSetting("push.apns.team-id", .text, "The team's id at Apple.")
  static let apnsTopic = OptionalSetting("push.apns.topic", .text, "The app's bundle id.")
  static let apnsCertificateFile = OptionalSetting(
    "push.apns.certificate-file", .path, "In place of a key: PEM of the app's certificate and its key, unencrypted.")
  static let apnsSandbox = Setting(
    "push.apns.sandbox", .boolean, default: "false", "Apple's service for apps under development.")
  static let fcmServiceAccount = OptionalSetting(
    "push.fcm.service-account-file", .path,
    "Google's JSON of a service account, by which this relay wakes its own devices; reloaded when it changes.")
  static let fcmProjectID = OptionalSetting(
    "push.fcm.project-id", .text, default: "what the file says", "The project's id at Google.")
  static let pushAPNs = OptionalSetting(
    "push.endpoints.apns", .secureOrigin, default: "Apple's", "Where APNs is: `https://HOST[:PORT]`. For tests.")
  static let pushFCM = OptionalSetting(
    "push.endpoints.fcm", .secureURL, default: "Google's", "Where FCM is. For tests.")
  static let pushFCMOAuth = OptionalSetting(
    "push.endpoints.fcm-oauth", .secureURL, default: "what the service account says",
    "Where FCM's access tokens come from. For tests.")
  static let pushTrust = OptionalSetting(
    "push.endpoints.trust", .path,
    "PEM file of CAs that are trusted beside the system's in whatever is pushed to; reloaded when the file changes.")
  static let webPushKey = OptionalSetting(
    "push.webpush.key-file", .path,
    "PEM of the P-256 key (VAPID) by which this relay wakes browsers of its own accounts; reloaded when it changes.")
  static let webPushContact = OptionalSetting(
    "push.webpush.contact", .text, "Whom push services may turn to: `mailto:ADDRESS` or an `https:` URL.")
  static let webPushEndpoints = Setting(
    "push.webpush.allowed-endpoints", .globs, default: "all",
    "Hosts that may be pushed to, as patterns with `*` and `?`, comma-separated.")
  static let webPushAllowPrivate = Setting(
    "push.webpush.allow-private", .boolean, default: "false",
    "Lets WebPush reach loopback and private addresses, and without TLS: for tests, or push services of one's own.")

  static let pushGatewayHost = Setting(
    "push-gateway.host", .host, default: "127.0.0.1", "Where the Matrix push gateway listens.")
  static let pushGatewayPort = OptionalSetting(
    "push-gateway.port", .port, default: "none (= off)", "Its port; needs `push-gateway.apps`.")
  static let pushGatewayApps = TreeSetting(
    "push-gateway.apps", type: "apps",
    "Of each app id, or pattern of app ids, how its pushes go out; in the environment as YAML or JSON.")

  static let developmentEnabled = Setting(
    "development.enabled", .boolean, default: "false",
    "Adds the transport `dev`, which returns codes to whoever asks.")

  static let directoryTokensMax = Setting(
    "directory.tokens-max", .whole(1...50_000), default: "20000",
    "Contact tokens of one look-up; more are answered 413.")
  static let directoryBudgetFirst = Setting(
    "directory.budget.first", .whole(1...1_000_000_000), default: "20000",
    "Different contacts that an account may ask for in its first days. Those it asks for again cost nothing.")
  static let directoryBudgetFirstDays = Setting(
    "directory.budget.first-days", .whole(1...365), default: "10", "How many days those are.")
  static let directoryBudgetPerDay = Setting(
    "directory.budget.per-day", .whole(0...1_000_000_000), default: "2000",
    "How many more it may ask for on each day after them.")
  static let directoryRefusesEnumeration = Setting(
    "directory.refuse-enumeration", .boolean, default: "false",
    "Whether look-ups that look like an enumeration of numbers are refused with 413. They are counted in any case.")
  static let directoryChangesDays = Setting(
    "directory.changes-days", .whole(1...90), default: "10",
    "How long the feed of the directory's changes is kept: who was away for longer reads the whole directory.")
  static let directorySnapshot = Setting(
    "directory.snapshot", .path, default: "relay-data/directory.snapshot",
    "Where the directory in memory is kept between two starts. A process without the file reads it from the store.")
  static let directoryOblivious = Setting(
    "directory.oblivious", .boolean, default: "false",
    "Offers look-ups that do not tell this relay which numbers are looked for. They cost much more computing.")
  static let drainSeconds = Setting(
    "drain.seconds", .whole(0...3600), default: "10",
    "How long a process that stops takes over closing its WebSockets, so that their clients do not come back all at once."
  )

  static func limitSize(_ limiter: LimiterName) -> Setting<Int> {
    Setting(
      "limits.\(limiter.rawValue).size", .whole(1...1_000_000_000),
      default: String(Int(limiter.defaultBucket.size)), "Charges a full bucket takes at once.")
  }
  static func limitPerMinute(_ limiter: LimiterName) -> Setting<Double> {
    let perMinute = limiter.defaultBucket.perMinute
    return Setting(
      "limits.\(limiter.rawValue).per-minute", .decimal(0...1_000_000_000),
      default: perMinute == perMinute.rounded() ? String(Int(perMinute)) : String(perMinute),
      "Charges that come back each minute.")
  }

  static let logLevel = Setting("log.level", .choice(LogLevel.self), default: "info", "The least level that is logged.")
  static let logFormat = Setting("log.format", .choice(LogFormat.self), default: "text", "How log lines look.")
}

extension ConfigurationKey {
  /// Every key, in the order of the documents.
  package static let all: [ConfigurationKey] =
    [
      Keys.name.key, Keys.allowInsecure.key,
      Keys.clientHost.key, Keys.clientPort.key, Keys.clientCertificate.key, Keys.clientKey.key,
      Keys.clientTrustedProxies.key, Keys.clientOrigins.key, Keys.clientConnectionsMax.key,
      Keys.clientConnectionsShare.key, Keys.webSocketLogin.key,
      Keys.webSocketIdle.key,
      Keys.federationHost.key, Keys.federationPort.key, Keys.federationURL.key,
      Keys.federationAllowPrivate.key, Keys.federationDirectory.key,
      Keys.directoryInterval.key, Keys.contactsMax.key, Keys.ownershipDays.key, Keys.numberClaims.key,
      Keys.federationImplicit.key, Keys.outboxMessages.key,
      Keys.outboxBytes.key, Keys.outboxHours.key,
      Keys.operatorHost.key, Keys.operatorPort.key, Keys.operatorReadTokens.key, Keys.operatorChangeTokens.key,
      Keys.storageURL.key, Keys.storageMigrate.key, Keys.storageStart.key, Keys.encryptionKey.key,
      Keys.formerEncryptionKey.key,
      Keys.coordinationURL.key, Keys.coordinationAuthority.key, Keys.coordinationCertificate.key,
      Keys.coordinationKey.key,
      Keys.attachmentsURL.key, Keys.attachmentsPublicURL.key, Keys.s3AccessKey.key, Keys.s3SecretKey.key,
      Keys.attachmentBytesMax.key, Keys.attachmentDays.key, Keys.attachmentAccountBytesMax.key,
      Keys.attachmentMark.key,
      Keys.retentionDays.key, Keys.mailboxMax.key, Keys.mailboxSenderMax.key,
      Keys.mailboxPeerPercent.key, Keys.pollSeconds.key,
      Keys.devicesMax.key, Keys.verifySignatures.key,
      Keys.verificationSender.key, Keys.codeMinutes.key, Keys.verificationTries.key, Keys.webhookURL.key,
      Keys.webhookSecret.key, Keys.twilioAccount.key, Keys.twilioToken.key, Keys.twilioFrom.key,
      Keys.twilioURL.key, Keys.tokenKey.key, Keys.lockDays.key,
      Keys.directoryTokensMax.key, Keys.directoryBudgetFirst.key, Keys.directoryBudgetFirstDays.key,
      Keys.directoryBudgetPerDay.key, Keys.directoryRefusesEnumeration.key, Keys.directoryChangesDays.key,
      Keys.directorySnapshot.key, Keys.directoryOblivious.key,
      Keys.pushContent.key, Keys.pushExpiresHours.key, Keys.pushPauseSeconds.key, Keys.apnsKeyFile.key,
      Keys.apnsKeyID.key, Keys.apnsTeamID.key, Keys.apnsTopic.key, Keys.apnsCertificateFile.key,
      Keys.apnsSandbox.key, Keys.fcmServiceAccount.key, Keys.fcmProjectID.key,
      Keys.pushAPNs.key, Keys.pushFCM.key, Keys.pushFCMOAuth.key, Keys.pushTrust.key,
      Keys.webPushKey.key, Keys.webPushContact.key, Keys.webPushEndpoints.key, Keys.webPushAllowPrivate.key,
      Keys.pushGatewayHost.key, Keys.pushGatewayPort.key, Keys.pushGatewayApps.key,
    ] + Keys.notifications + [Keys.developmentEnabled.key, Keys.drainSeconds.key]
    + LimiterName.allCases.flatMap { [Keys.limitSize($0).key, Keys.limitPerMinute($0).key] }
    + [Keys.logLevel.key, Keys.logFormat.key]
}

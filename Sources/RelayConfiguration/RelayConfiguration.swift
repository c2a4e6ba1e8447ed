package import RelayCore

/// Everything an operator decides, read once at start. docs/configuration.md explains each key.
package struct RelayConfiguration: Sendable, Equatable {
  package let name: RelayName
  package let client: Client
  package let federation: Federation
  package let operations: Operations
  package let storage: Storage
  package let coordination: Coordination
  package let attachments: Attachments
  package let messages: Messages
  package let devices: Devices
  package let keys: PreKeys
  package let verification: Verification
  package let development: Development
  package let directory: Directory
  package let push: Push
  package let pushGateway: PushGateway
  package let deviceNotifications: DeviceNotifications
  package let drain: Drain
  /// Has every limiter.
  package let limits: [LimiterName: Bucket]
  package let log: Log

  package struct Client: Sendable, Equatable {
    package let host: String
    /// 0 takes any free one.
    package let port: Int
    package let tls: TLS?
    package let trustedProxies: [AddressRange]
    package let origins: AllowedOrigins
    package let connectionsMax: Int
    /// Of `connectionsMax`, what one address may hold, 1 to 100.
    package let connectionsSharePercent: Int
    package let webSockets: WebSockets
  }

  package struct WebSockets: Sendable, Equatable {
    /// Of those that are opened with `login`; `user` always means JSON (reference 1.12).
    package let loginDialect: WebSocketDialect
    package let idle: Duration
  }

  package struct Directory: Sendable, Equatable {
    /// Of one look-up.
    package let tokensMax: Int
    package let allowance: LookUpAllowance
    package let refusesEnumeration: Bool
    /// Whole days that the feed is kept.
    package let changesDays: Int
    /// A file.
    package let snapshotPath: String
    /// Whether look-ups are offered that do not tell what is looked for.
    package let isOblivious: Bool
  }

  /// For everything of this relay that pushes.
  package struct Push: Sendable, Equatable {
    package let endpoints: Endpoints
    /// Whether WebPush may reach loopback and private addresses, and without TLS.
    package let allowsPrivateWebPush: Bool
    /// Patterns of the hosts that this relay's own browsers may be pushed to at; nil for all.
    package let webPushEndpoints: [String]?
    /// For waking this relay's own devices.
    package let waking: Waking

    /// Where the providers are; nil for the provider's own address. All are `https`.
    package struct Endpoints: Sendable, Equatable {
      /// Without a path.
      package let apns: WebURL?
      package let fcm: WebURL?
      package let fcmOAuth: WebURL?
      /// A PEM file of CAs; nil for the system's alone.
      package let trust: String?
    }
  }

  package struct PushGateway: Sendable, Equatable {
    package let host: String
    /// nil: no gateway. 0 takes any free one.
    package let port: Int?
    /// App ids and patterns with their options, as the push gateway reads them; present whenever `port` is.
    package let apps: JSONValue?
  }

  /// nil for both providers: nobody is woken.
  package struct Waking: Sendable, Equatable {
    package let apns: APNs?
    package let fcm: FCM?
    package let webPush: WebPush?
    package let content: PushContent
    /// How long a wake-up is worth sending.
    package let lifetime: Duration
    /// How long a device that was woken is left alone.
    package let pause: Duration
  }

  package struct Drain: Sendable, Equatable {
    /// Over which WebSockets are closed.
    package let window: Duration
  }

  /// PEM files.
  package struct TLS: Sendable, Equatable {
    package let certificate: String
    package let key: String
  }

  package struct Federation: Sendable, Equatable {
    package let host: String
    /// nil: no listener for peers.
    package let port: Int?
    /// Always `https` and without a path; present whenever `port` is.
    package let url: WebURL?
    /// Whether URLs of peers may lead to addresses that are not public, wherever this relay is.
    package let allowsPrivate: Bool
    /// A folder.
    package let directory: String
    /// How often each peer is asked what has changed in its listing.
    package let directoryInterval: Duration
    package let contactsMax: Int
    /// How long the claim of a peer stands that lists a contact no longer.
    package let ownershipDays: Int
    /// Whether a number that a peer lists can be registered here.
    package let respectsClaims: Bool
    /// Whether requests of clients that name no relay are carried to peers.
    package let routesImplicitly: Bool
    package let outbox: OutboxBounds
  }

  package struct Operations: Sendable, Equatable {
    package let host: String
    /// 0 takes any free one.
    package let port: Int
    /// Tokens of the operator API: those that may look, and those that may change and look.
    package let readTokens: [OperatorToken]
    package let changeTokens: [OperatorToken]
  }

  package struct Storage: Sendable, Equatable {
    package let location: StorageLocation
    /// The file that `location` came from, where it has one of its own.
    let urlFile: String?
    /// Whether pending migrations run at start.
    package let migratesAtStart: Bool
    /// How long a process that is to serve waits for a store that does not answer yet.
    package let startPatience: Duration
    /// 32 bytes; nil: signaling keys are stored as they are.
    package let encryptionKey: SecretBytes?
    package let formerEncryptionKey: SecretBytes?
  }

  package struct Coordination: Sendable, Equatable {
    package let location: CoordinationLocation
    /// Likewise.
    let urlFile: String?
  }

  package struct Attachments: Sendable, Equatable {
    package let location: AttachmentsLocation
    /// nil: the client listener's own URL.
    package let publicURL: WebURL?
    /// Present whenever the location is S3.
    package let s3: S3Credentials?
    package let bytesMax: Int
    /// Whole days.
    package let retention: Duration
    package let accountBytesMax: Int
    /// What the ids begin with.
    package let mark: AttachmentMark
  }

  package struct S3Credentials: Sendable, Equatable {
    package let accessKey: String
    package let secretKey: Secret
  }

  package struct Devices: Sendable, Equatable {
    package let max: Int
  }

  package struct PreKeys: Sendable, Equatable {
    package let verifiesSignatures: Bool
  }

  package struct Messages: Sendable, Equatable {
    /// Whole days.
    package let retention: Duration
    package let mailboxMax: Int
    package let mailboxSenderMax: Int
    /// Of a mailbox, what one peer may fill, 1 to 100.
    package let mailboxPeerPercent: Int
    /// How long a connected device's mailbox goes unread at most.
    package let pollInterval: Duration
  }

  package struct Verification: Sendable, Equatable {
    package let sender: Sender
    package let codeLifetime: Duration
    /// 1 or more.
    package let triesMax: Int
    /// nil: no number tokens.
    package let tokenKey: SecretBytes?
    /// Whole days.
    package let lockLifetime: Duration

    package enum Sender: Sendable, Equatable {
      case log
      case webhook(url: WebURL, secret: Secret)
      case twilio(account: String, token: Secret, from: String, url: WebURL)

      /// The key or token that the sender proves itself with.
      package var secret: Secret? {
        switch self {
        case .log: nil
        case .webhook(_, let secret): secret
        case .twilio(_, let token, _, _): token
        }
      }
    }
  }

  package struct Development: Sendable, Equatable {
    package let isEnabled: Bool
  }

  package struct Log: Sendable, Equatable {
    package let level: LogLevel
    package let format: LogFormat
  }
}

package enum LogLevel: String, Sendable, CaseIterable { case trace, debug, info, notice, warning, error, critical }
/// Reference 1.12.
package enum WebSocketDialect: String, Sendable, CaseIterable { case protobuf, json }
package enum LogFormat: String, Sendable, CaseIterable { case text, json }
/// What pushes to this relay's own devices carry.
package enum PushContent: String, Sendable, CaseIterable {
  /// The message that waits alone, encrypted.
  case envelope
  /// Nothing: the provider learns the time.
  case wakeUp = "wake-up"
}
/// What becomes of a number that a peer lists and somebody proves here.
enum NumberClaims: String, Sendable, CaseIterable { case ignore, refuse }
enum VerificationSender: String, Sendable, CaseIterable { case log, webhook, twilio }

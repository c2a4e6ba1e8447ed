// Building the structs from the table of keys. A faulty value is noted by the reader and stands at its default here,
// so that the pass goes on; the result is used only when there was no fault.

import RelayCore

extension RelayConfiguration {
  init(_ reader: inout ConfigurationReader, _ readers: TreeReaders) {
    name = reader.value(Keys.name)
    client = Client(&reader)
    federation = Federation(&reader)
    operations = Operations(
      host: reader.value(Keys.operatorHost), port: reader.value(Keys.operatorPort),
      readTokens: reader.value(Keys.operatorReadTokens) ?? [],
      changeTokens: reader.value(Keys.operatorChangeTokens) ?? [])
    storage = Storage(&reader)
    coordination = Coordination(&reader)
    attachments = Attachments(&reader, of: name)
    messages = Messages(
      retention: .seconds(86_400 * reader.value(Keys.retentionDays)), mailboxMax: reader.value(Keys.mailboxMax),
      mailboxSenderMax: reader.value(Keys.mailboxSenderMax),
      mailboxPeerPercent: reader.value(Keys.mailboxPeerPercent),
      pollInterval: reader.value(Keys.pollSeconds))
    devices = Devices(max: reader.value(Keys.devicesMax))
    keys = PreKeys(verifiesSignatures: reader.value(Keys.verifySignatures))
    verification = Verification(&reader)
    development = Development(isEnabled: reader.value(Keys.developmentEnabled))
    directory = Directory(
      tokensMax: reader.value(Keys.directoryTokensMax),
      allowance: LookUpAllowance(
        first: reader.value(Keys.directoryBudgetFirst), firstDays: reader.value(Keys.directoryBudgetFirstDays),
        perDay: reader.value(Keys.directoryBudgetPerDay)),
      refusesEnumeration: reader.value(Keys.directoryRefusesEnumeration),
      changesDays: reader.value(Keys.directoryChangesDays), snapshotPath: reader.value(Keys.directorySnapshot),
      isOblivious: reader.value(Keys.directoryOblivious))
    push = Push(&reader)
    pushGateway = PushGateway(&reader, readers)
    deviceNotifications = DeviceNotifications(&reader)
    drain = Drain(window: .seconds(reader.value(Keys.drainSeconds)))
    var limits: [LimiterName: Bucket] = [:]
    for limiter in LimiterName.allCases {
      limits[limiter] = Bucket(
        size: Double(reader.value(Keys.limitSize(limiter))), perMinute: reader.value(Keys.limitPerMinute(limiter)))
    }
    self.limits = limits
    log = Log(level: reader.value(Keys.logLevel), format: reader.value(Keys.logFormat))
  }
}

extension RelayConfiguration.Client {
  init(_ reader: inout ConfigurationReader) {
    host = reader.value(Keys.clientHost)
    port = reader.value(Keys.clientPort)
    trustedProxies = reader.value(Keys.clientTrustedProxies)
    origins = reader.value(Keys.clientOrigins)
    connectionsMax = reader.value(Keys.clientConnectionsMax)
    connectionsSharePercent = reader.value(Keys.clientConnectionsShare)
    webSockets = RelayConfiguration.WebSockets(
      loginDialect: reader.value(Keys.webSocketLogin), idle: .seconds(reader.value(Keys.webSocketIdle)))
    let (certificate, key) = (reader.value(Keys.clientCertificate), reader.value(Keys.clientKey))
    tls = if let certificate, let key { RelayConfiguration.TLS(certificate: certificate, key: key) } else { nil }
    if certificate != nil {
      reader.miss(Keys.clientKey.key, because: "client.tls.certificate is given", of: Keys.clientCertificate.key)
    }
    if key != nil {
      reader.miss(Keys.clientCertificate.key, because: "client.tls.key is given", of: Keys.clientKey.key)
    }
  }
}

extension RelayConfiguration.Federation {
  init(_ reader: inout ConfigurationReader) {
    port = reader.value(Keys.federationPort)
    url = reader.value(Keys.federationURL)
    host = reader.value(Keys.federationHost) ?? Self.host(reachedBy: url)
    allowsPrivate = reader.value(Keys.federationAllowPrivate)
    directory = reader.value(Keys.federationDirectory)
    directoryInterval = reader.value(Keys.directoryInterval)
    contactsMax = reader.value(Keys.contactsMax)
    ownershipDays = reader.value(Keys.ownershipDays)
    respectsClaims = reader.value(Keys.numberClaims) == .refuse
    routesImplicitly = reader.value(Keys.federationImplicit)
    outbox = OutboxBounds(
      messagesMax: reader.value(Keys.outboxMessages), bytesMax: Int64(reader.value(Keys.outboxBytes)),
      age: .seconds(3600 * reader.value(Keys.outboxHours)))
    if port != nil {
      reader.miss(
        Keys.federationURL.key, because: "federation.port is given, so peers must know where to reach us",
        of: Keys.federationPort.key)
    }
  }
}

extension RelayConfiguration.Federation {
  /// Peers on other hosts have to reach it; where `url` is loopback, there are none.
  private static func host(reachedBy url: WebURL?) -> String {
    guard let url, !PublicAddress.isLoopback(url.host) else { return "127.0.0.1" }
    return url.host.contains(":") ? "::" : "0.0.0.0"
  }
}

extension RelayConfiguration.Push {
  init(_ reader: inout ConfigurationReader) {
    endpoints = Endpoints(
      apns: reader.value(Keys.pushAPNs), fcm: reader.value(Keys.pushFCM), fcmOAuth: reader.value(Keys.pushFCMOAuth),
      trust: reader.value(Keys.pushTrust))
    allowsPrivateWebPush = reader.value(Keys.webPushAllowPrivate)
    webPushEndpoints = reader.value(Keys.webPushEndpoints)
    waking = RelayConfiguration.Waking(&reader)
  }
}

extension RelayConfiguration.Waking {
  init(_ reader: inout ConfigurationReader) {
    apns = RelayConfiguration.APNs(
      .init(
        keyFile: Keys.apnsKeyFile, keyID: Keys.apnsKeyID, teamID: Keys.apnsTeamID, topic: Keys.apnsTopic,
        certificateFile: Keys.apnsCertificateFile, sandbox: Keys.apnsSandbox), &reader)
    fcm = RelayConfiguration.FCM(serviceAccount: Keys.fcmServiceAccount, projectID: Keys.fcmProjectID, &reader)
    webPush = RelayConfiguration.WebPush(&reader)
    content = reader.value(Keys.pushContent)
    lifetime = .seconds(3600 * reader.value(Keys.pushExpiresHours))
    pause = reader.value(Keys.pushPauseSeconds)
  }
}

extension RelayConfiguration.PushGateway {
  init(_ reader: inout ConfigurationReader, _ readers: TreeReaders) {
    host = reader.value(Keys.pushGatewayHost)
    port = reader.value(Keys.pushGatewayPort)
    apps = reader.tree(Keys.pushGatewayApps, readers.pushApps)
    if port != nil {
      reader.miss(
        Keys.pushGatewayApps.key, because: "push-gateway.port is given, so somebody must be pushed to",
        of: Keys.pushGatewayPort.key)
    } else if apps != nil, !reader.isGiven(Keys.pushGatewayPort.key) {
      reader.warn(
        "push-gateway.apps has no effect without push-gateway.port: the gateway is off", at: Keys.pushGatewayApps.key)
    }
  }
}

extension RelayConfiguration.Storage {
  init(_ reader: inout ConfigurationReader) {
    location = reader.value(Keys.storageURL)
    urlFile = reader.file(of: Keys.storageURL.key)
    let isEmbedded = if case .sqlite = location { true } else { false }
    migratesAtStart = reader.value(Keys.storageMigrate) ?? isEmbedded
    startPatience = reader.value(Keys.storageStart)
    encryptionKey = reader.value(Keys.encryptionKey)
    formerEncryptionKey = reader.value(Keys.formerEncryptionKey)
    if formerEncryptionKey != nil {
      reader.miss(
        Keys.encryptionKey.key, because: "storage.encryption-key-former is given", of: Keys.formerEncryptionKey.key)
    }
  }
}

extension RelayConfiguration.Coordination {
  init(_ reader: inout ConfigurationReader) {
    let files = RedisTLSFiles(
      authority: reader.value(Keys.coordinationAuthority), certificate: reader.value(Keys.coordinationCertificate),
      key: reader.value(Keys.coordinationKey))
    let given = reader.value(Keys.coordinationURL)
    urlFile = reader.file(of: Keys.coordinationURL.key)
    if files.certificate != nil {
      reader.miss(
        Keys.coordinationKey.key, because: "coordination.tls.certificate is given",
        of: Keys.coordinationCertificate.key)
    }
    if files.key != nil {
      reader.miss(
        Keys.coordinationCertificate.key, because: "coordination.tls.key is given", of: Keys.coordinationKey.key)
    }
    guard case .redis(let endpoint) = given, endpoint.tls != nil else {
      location = given
      // A fault and no warning: whoever gives them counts on TLS.
      for key in [Keys.coordinationAuthority.key, Keys.coordinationCertificate.key, Keys.coordinationKey.key]
      where reader.isGiven(key) {
        reader.fault("\(key.name) needs coordination.url to be rediss://", at: key)
      }
      return
    }
    location = .redis(endpoint.secured(by: files))
  }
}

extension RelayConfiguration.Attachments {
  init(_ reader: inout ConfigurationReader, of name: RelayName) {
    location = reader.value(Keys.attachmentsURL)
    publicURL = reader.value(Keys.attachmentsPublicURL)
    let (access, secret) = (reader.value(Keys.s3AccessKey), reader.value(Keys.s3SecretKey))
    s3 = if let access, let secret { .init(accessKey: access, secretKey: secret) } else { nil }
    bytesMax = reader.value(Keys.attachmentBytesMax)
    retention = .seconds(86_400 * reader.value(Keys.attachmentDays))
    accountBytesMax = reader.value(Keys.attachmentAccountBytesMax)
    let chosen = reader.value(Keys.attachmentMark).flatMap { AttachmentMark($0) }
    mark = chosen ?? AttachmentMark(madeFrom: name)
    if case .s3 = location {
      let because = "attachments.url is s3://"
      reader.miss(Keys.s3AccessKey.key, because: because, of: Keys.attachmentsURL.key)
      reader.miss(Keys.s3SecretKey.key, because: because, of: Keys.attachmentsURL.key)
    }
  }
}

extension RelayConfiguration.Verification {
  init(_ reader: inout ConfigurationReader) {
    codeLifetime = .seconds(60 * reader.value(Keys.codeMinutes))
    triesMax = reader.value(Keys.verificationTries)
    tokenKey = reader.value(Keys.tokenKey)
    lockLifetime = .seconds(86_400 * reader.value(Keys.lockDays))
    let twilioURL = reader.value(Keys.twilioURL)
    let (url, secret) = (reader.value(Keys.webhookURL), reader.value(Keys.webhookSecret))
    let (account, token) = (reader.value(Keys.twilioAccount), reader.value(Keys.twilioToken))
    let from = reader.value(Keys.twilioFrom)

    let needed: [ConfigurationKey]
    let name = reader.value(Keys.verificationSender)
    switch name {
    case .log:
      sender = .log
      needed = []
    case .webhook:
      sender = if let url, let secret { .webhook(url: url, secret: secret) } else { .log }
      needed = [Keys.webhookURL.key, Keys.webhookSecret.key]
    case .twilio:
      sender =
        if let account, let token, let from {
          .twilio(account: account, token: token, from: from, url: twilioURL)
        } else { .log }
      needed = [Keys.twilioAccount.key, Keys.twilioToken.key, Keys.twilioFrom.key]
    }
    for key in needed {
      reader.miss(key, because: "verification.sender is \(name.rawValue)", of: Keys.verificationSender.key)
    }
  }
}

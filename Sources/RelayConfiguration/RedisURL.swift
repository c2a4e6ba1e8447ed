import RelayCore

extension ValueType where Value == CoordinationLocation {
  static let coordination = ValueType(name: "URL") { text throws(Malformed) in
    if text == "local" { return .local }
    guard let endpoint = RedisEndpoint(url: text) else {
      throw Malformed(
        "local, redis[s]://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], "
          + "redis[s]+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST...]/MASTER[/DATABASE], "
          + "redis[s]+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST...] or "
          + "redis+unix://[[USER]:PASSWORD@]/PATH[?db=DATABASE]")
    }
    return .redis(endpoint)
  }
}

extension RedisEndpoint {
  /// - Returns: nil for a URL of another form than `coordination.url` takes.
  fileprivate init?(url text: String) {
    guard let url = URLParts(text), !url.hasFragment, let authority = url.authority,
      authority.user == nil || authority.password != nil,
      let user = URLParts.percentDecoded(authority.user ?? ""),
      let password = URLParts.percentDecoded(authority.password ?? ""),
      let (place, database) = Self.place(url, hosts: authority.hosts),
      let database = database.isEmpty ? 0 : Int(database), (0...65_535).contains(database)
    else { return nil }
    self.init(
      place: place, user: user.isEmpty ? nil : user, password: password.isEmpty ? nil : Secret(password),
      database: database, tls: url.scheme.hasPrefix("rediss") ? RedisTLSFiles() : nil)
  }

  /// - Returns: the place, and the text of the database.
  private static func place(_ url: URLParts, hosts: String) -> (Place, database: String)? {
    switch url.scheme {
    case "redis", "rediss":
      guard url.query == nil, let address = address(hosts, port: serverPort) else { return nil }
      return (.server(address), String(url.path.drop { $0 == "/" }))
    case "redis+unix":
      guard hosts.isEmpty, url.path.count > 1, let path = URLParts.percentDecoded(url.path),
        let items = url.queryItems, items.count <= 1, items.allSatisfy({ $0.name == "db" })
      else { return nil }
      return (.server(.unix(path: path)), items.first?.value ?? "")
    case "redis+sentinel", "rediss+sentinel":
      let path = url.path.split(separator: "/", omittingEmptySubsequences: false)
      guard (2...3).contains(path.count), let group = URLParts.percentDecoded(path[1]), !group.isEmpty,
        let addresses = addresses(hosts, port: sentinelPort), let login = sentinelLogin(url)
      else { return nil }
      let sentinels = RedisSentinels(
        addresses: addresses, group: group, user: login.user, password: login.password)
      return (.sentinels(sentinels), path.count == 3 ? String(path[2]) : "")
    case "redis+cluster", "rediss+cluster":
      guard url.query == nil, url.path.isEmpty || url.path == "/",
        let addresses = addresses(hosts, port: serverPort)
      else { return nil }
      return (.cluster(addresses), "")
    default: return nil
    }
  }

  /// The items of the query of a URL with sentinels: `sentinel-password`, and `sentinel-user` beside it.
  private static func sentinelLogin(_ url: URLParts) -> (user: String?, password: Secret?)? {
    guard let items = url.queryItems, items.allSatisfy({ !$0.value.isEmpty }) else { return nil }
    let values = Dictionary(items.map { ($0.name, $0.value) }) { first, _ in first }
    guard values.count == items.count, Set(values.keys).isSubset(of: ["sentinel-user", "sentinel-password"]),
      values["sentinel-user"] == nil || values["sentinel-password"] != nil
    else { return nil }
    return (values["sentinel-user"], values["sentinel-password"].map(Secret.init))
  }

  private static func addresses(_ hosts: String, port: Int) -> [Address]? {
    var addresses: [Address] = []
    for host in hosts.split(separator: ",", omittingEmptySubsequences: false) {
      guard let address = address(String(host), port: port), !addresses.contains(address) else { return nil }
      addresses.append(address)
    }
    return addresses
  }

  private static func address(_ host: String, port: Int) -> Address? {
    WebURL.endpoint(host).map { .tcp(host: $0.host, port: $0.port ?? port) }
  }

  private static let serverPort = 6379
  private static let sentinelPort = 26_379
}

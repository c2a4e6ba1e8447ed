/// The unit by which systemd runs a relay: hardened (`systemd-analyze security` finds 1.7 at most), told when the
/// relay is ready and that it lives.
struct SystemdUnit {
  let name: String
  let executable: String
  let configuration: String
  /// The folder that the relay writes to. Systemd makes it if it is `/var/lib/NAME`.
  let data: String
  let user: String
  /// Whether a port below 1024 is listened on.
  let hasLowPort: Bool
  /// How long WebSockets are closed over when it stops.
  let drainSeconds: Int
  /// The origin of the unit, as its first line says.
  var origin = "Written by `relay init`. Copy it to /etc/systemd/system, or enable it by its path."
  /// A folder of secrets that systemd alone reads, and hands to the relay.
  var credentials: String?

  /// The package's, which serves ports below 1024 too (`relay init --print-unit`).
  static let packaged = SystemdUnit(
    name: "", executable: "/usr/bin/relay", configuration: "/etc/relay/relay.yaml", data: "/var/lib/relay",
    user: "relay", hasLowPort: true, drainSeconds: 10,
    origin: "The package's. `systemctl edit relay` changes it for this host.", credentials: "/etc/relay/credentials")

  var text: String {
    """
    # \(origin)
    [Unit]
    Description=Relay\(name.isEmpty ? "" : " \(name)"), a federated message relay\(manual)
    After=network-online.target postgresql.service redis-server.service
    Wants=network-online.target

    [Service]
    Type=notify
    User=\(user)
    ExecStart=\(quoted(executable)) serve --config \(quoted(configuration))
    ExecReload=/bin/kill -HUP $MAINPID
    Restart=on-failure
    RestartSec=2
    # The relay waits for its store for storage.start-seconds.
    TimeoutStartSec=120
    # drain.seconds, 90 s for whatever hangs, and a little.
    TimeoutStopSec=\(drainSeconds + 100)
    WatchdogSec=30
    LimitNOFILE=65536
    UMask=0077

    \(storage)\(credentials.map { "\nLoadCredential=relay:\(quoted($0))" } ?? "")
    CapabilityBoundingSet=\(capabilities)
    AmbientCapabilities=\(capabilities)
    DevicePolicy=closed
    KeyringMode=private
    LockPersonality=yes
    MemoryDenyWriteExecute=yes
    NoNewPrivileges=yes
    PrivateDevices=yes
    PrivateTmp=yes
    PrivateUsers=\(hasLowPort ? "no" : "yes")
    ProtectClock=yes
    ProtectControlGroups=yes
    ProtectHome=\(data.hasPrefix("/home/") || data.hasPrefix("/root/") ? "no" : "yes")
    ProtectHostname=yes
    ProtectKernelLogs=yes
    ProtectKernelModules=yes
    ProtectKernelTunables=yes
    ProtectProc=invisible
    ProtectSystem=strict
    RemoveIPC=yes
    RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
    RestrictNamespaces=yes
    RestrictRealtime=yes
    RestrictSUIDSGID=yes
    SystemCallArchitectures=native
    SystemCallErrorNumber=EPERM
    SystemCallFilter=@system-service
    SystemCallFilter=~@privileged @resources
    SystemCallFilter=setpriority

    [Install]
    WantedBy=multi-user.target

    """
  }

  /// The file system is read-only but for the data.
  private var storage: String {
    let prefix = "/var/lib/"
    guard data.hasPrefix(prefix), !data.dropFirst(prefix.count).contains("/") else {
      return "ReadWritePaths=\(quoted(data))"
    }
    return "StateDirectory=\(data.dropFirst(prefix.count))\nStateDirectoryMode=0700"
  }

  /// Only the package brings manual pages.
  private var manual: String { credentials == nil ? "" : "\nDocumentation=man:relay(1)" }

  private var capabilities: String { hasLowPort ? "CAP_NET_BIND_SERVICE" : "" }

  private func quoted(_ path: String) -> String {
    let escaped = path.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("%", with: "%%")
    return path.allSatisfy { $0.isLetter || $0.isNumber || "/-_.".contains($0) } ? path : "\"\(escaped)\""
  }
}

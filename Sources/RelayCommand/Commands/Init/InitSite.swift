import Federation
import Foundation
import Glibc
import RelayConfiguration
import RelayCore
import RelayHTTP

/// Writes what a plan says: all of it, or nothing.
struct InitSite {
  let plan: InitPlan
  /// The user who is to own the files; nil for the user who runs the command.
  let owner: Owner?

  struct Owner {
    let name: String
    let user: uid_t
    let group: gid_t

    /// - Returns: nil where this host has no such user.
    init?(_ name: String) {
      guard let entry = getpwnam(name) else { return nil }
      self.name = name
      (user, group) = (entry.pointee.pw_uid, entry.pointee.pw_gid)
    }
  }

  /// Files that were made, to be removed where something fails.
  private final class Written {
    var paths: [String] = []
    /// The package's default, while something else stands in its place.
    var setAside: String?

    func remove() {
      for path in paths.reversed() { try? FileManager.default.removeItem(atPath: path) }
      if let setAside { try? FileManager.default.moveItem(atPath: setAside + Self.suffix, toPath: setAside) }
    }
    func keep() { if let setAside { try? FileManager.default.removeItem(atPath: setAside + Self.suffix) } }
    static let suffix = ".default"
  }

  /// Whether a configuration may be written there: nothing is there, or what the package brought, as it came.
  static func isFree(_ path: String) -> Bool { !FileManager.default.fileExists(atPath: path) || isDefault(path) }

  private static func isDefault(_ path: String) -> Bool {
    guard let present = FileManager.default.contents(atPath: path) else { return false }
    return present == FileManager.default.contents(atPath: "/usr/share/relay/relay.yaml")
  }

  /// Whether the package's unit runs what the plan sets up.
  static func hasPackagedUnit(_ plan: InitPlan) -> Bool {
    let unit = SystemdUnit.packaged
    return plan.configurationFile == unit.configuration && plan.data == unit.data
      && FileManager.default.fileExists(atPath: "/lib/systemd/system/relay.service")
  }

  /// The service's part of the host.
  struct Belongings {
    /// Files, and folders with all that is in them.
    let whole: [String]
    /// Folders that may have been there: whatever else lies in them stays whose it is.
    let alone: [String]
  }

  /// - Throws: `CommandFailure`, or `ConfigurationFaults`; nothing is left behind then.
  func write() throws -> Belongings {
    let written = Written()
    do {
      try makeFolder(plan.folder, written)
      try makeFolder(plan.data, written)
      let secrets = plan.secrets()
      for secret in secrets { try write(secret.text + "\n", to: "\(plan.folder)/\(secret.name)", mode: 0o600, written) }
      if Self.isDefault(plan.configurationFile) {
        let path = plan.configurationFile
        try FileManager.default.moveItem(atPath: path, toPath: path + Written.suffix)
        written.setAside = path
      }
      try write(plan.configuration(secrets), to: plan.configurationFile, mode: 0o640, written)
      let settings = try RelayConfiguration.load(file: plan.configurationFile, environment: [:], readers: .relay)
        .configuration
      if plan.federationPort != nil { try makeAuthority(settings, written) }
      if !Self.hasPackagedUnit(plan) { try write(unit(settings).text, to: plan.unitFile, mode: 0o644, written) }
      let keys = plan.federationPort == nil ? [] : [settings.federation.directory]
      let belongings = Belongings(
        whole: Set(written.paths + keys).sorted(), alone: [plan.data] + Self.closed(plan.folder))
      if let owner { try give(belongings, to: owner) }
      written.keep()
      return belongings
    } catch {
      written.remove()
      throw error
    }
  }

  private func unit(_ settings: RelayConfiguration) -> SystemdUnit {
    SystemdUnit(
      name: plan.name, executable: Self.executable, configuration: plan.configurationFile, data: plan.data,
      user: owner?.name ?? Self.serviceUser,
      hasLowPort: [plan.clientPort, plan.federationPort ?? 65_535].contains { $0 < 1024 },
      drainSeconds: Int(settings.drain.window.components.seconds))
  }

  /// `folder`, where others may not enter it: then the service could not reach its configuration.
  private static func closed(_ folder: String) -> [String] {
    let attributes = try? FileManager.default.attributesOfItem(atPath: folder)
    guard let mode = attributes?[.posixPermissions] as? Int else { return [] }
    return mode & 0o001 == 0 ? [folder] : []
  }

  static let serviceUser = "relay"

  /// The way to this program, whatever the folder it is run from.
  private static var executable: String {
    (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "/usr/bin/relay"
  }

  private func makeAuthority(_ settings: RelayConfiguration, _ written: Written) throws {
    let folder = IdentityFolder(path: settings.federation.directory)
    guard !FileManager.default.fileExists(atPath: folder.authorityFile) else { return }
    let directory = settings.federation.directory
    // A key that was put back is the operator's: it stays, whatever fails.
    let former = try? FileManager.default.contentsOfDirectory(atPath: directory)
    if former == nil { written.paths.append(directory) }
    defer {
      let present = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
      if let former { written.paths += Set(present).subtracting(former).sorted().map { "\(directory)/\($0)" } }
    }
    _ = try folder.createAuthority(for: settings.name, replacing: false, now: .now)
    _ = try folder.issueLeaf(for: settings.name, at: settings.federation.endpoint("peers reach it there"), now: .now)
  }

  private func makeFolder(_ path: String, _ written: Written) throws {
    guard !FileManager.default.fileExists(atPath: path) else { return }
    do {
      try FileManager.default.createDirectory(
        atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o750])
    } catch {
      throw CommandFailure("The folder \(path) cannot be made: \(FaultWords.of(error)). Nothing was written.")
    }
    written.paths.append(path)
  }

  private func write(_ text: String, to path: String, mode: mode_t, _ written: Written) throws {
    let descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode)
    guard descriptor >= 0 else {
      let reason = errno == EEXIST ? "it is there already" : FaultWords.ofSystem(errno)
      throw CommandFailure(
        "\(path) cannot be written: \(reason). Nothing was written: remove it, or give another --folder.")
    }
    written.paths.append(path)
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    do {
      try file.write(contentsOf: Data(text.utf8))
      try file.synchronize()
    } catch {
      throw CommandFailure("\(path) cannot be written: \(FaultWords.of(error)). Nothing was written.")
    }
    // The umask may have taken bits away.
    fchmod(descriptor, mode)
  }

  private func give(_ belongings: Belongings, to owner: Owner) throws {
    let inside = belongings.whole.flatMap { path in
      (FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []).map { "\(path)/\($0)" }
    }
    // The package's folder of secrets stays root's.
    for path in Set(belongings.whole + inside + belongings.alone) where path != SystemdUnit.packaged.credentials {
      guard lchown(path, owner.user, owner.group) == 0 else {
        throw CommandFailure("\(path) cannot be given to \(owner.name): \(FaultWords.ofSystem(errno)).")
      }
    }
  }
}

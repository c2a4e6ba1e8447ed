import Foundation
import Glibc
import Operations
import RelayCore
import RelayHTTP

/// The change that a command makes, for the audit log.
struct AuditNote {
  enum Subject {
    case relay
    case named(String)
    case account(AccountNumber)
  }

  /// The words of the command.
  let action: String
  let subject: Subject

  init(_ action: String, on subject: Subject = .relay) {
    self.action = action
    self.subject = subject
  }

  init(_ action: String, on name: String) { self.init(action, on: .named(name)) }
  init(_ action: String, on user: NotificationUser) { self.init(action, on: .named(user.description)) }
}

extension Storage {
  /// Does `body`, and notes it before and behind, where there is a note.
  func noting<Value>(_ note: AuditNote?, _ body: () async throws -> Value) async throws -> Value {
    guard let note else { return try await body() }
    let subject: String? =
      switch note.subject {
      case .relay: nil
      case .named(let name): name
      case .account(let number): try await handle(of: number).text
      }
    let deed = AuditDeed(by: .user(HostUser.name), action: note.action, subject: subject)
    return try await noting(deed, reason: Self.reason, body)
  }

  private static func reason(_ error: any Error) -> String {
    switch error {
    case let failure as CommandFailure: failure.description
    case let problem as Problem: problem.reason ?? problem.kind.text
    case let error as StoreError: error.description
    default: FaultWords.brief(error)
    }
  }
}

/// The user who runs this command on this host.
enum HostUser {
  /// The user's name; behind `sudo` also whose it is: `anna as root`.
  static var name: String {
    let own = NSUserName().isEmpty ? "uid \(getuid())" : NSUserName()
    guard let caller = ProcessInfo.processInfo.environment["SUDO_USER"], !caller.isEmpty, caller != own else {
      return own
    }
    return "\(caller) as \(own)"
  }
}

import Relay
import RelayCore
import RelayHTTP

// A client's request may wait for servers that are not ours. A request that waits there takes up nothing here, so it
// does not count when the clients' listener finds out whether it is asked for too much.

/// A courier whose waits for peers are no load.
struct UnburdeningCourier: Courier {
  let courier: any Courier
  let load: RequestLoad

  func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] {
    try await load.elsewhere { () async throws(Problem) in
      try await courier.preKeys(of: account, devices: devices, version: version, at: relay)
    }
  }

  func submit(_ submission: Submission, from source: DeviceAddress, to relay: RelayName) async throws(Problem) {
    try await load.elsewhere { () async throws(Problem) in
      try await courier.submit(submission, from: source, to: relay)
    }
  }

  func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) {
    try await load.elsewhere { () async throws(Problem) in
      try await courier.sendReceipt(for: timestamp, from: source, to: destination, at: relay)
    }
  }

  func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    try await load.elsewhere { () async throws(Problem) in try await courier.attachmentURL(of: id, at: relay) }
  }
}

/// A finder of numbers' homes whose waits for peers are no load.
struct UnburdeningHomes: HomeFinder {
  let homes: any HomeFinder
  let load: RequestLoad

  func home(of number: AccountNumber) async throws(Problem) -> RelayName? {
    try await load.elsewhere { () async throws(Problem) in try await homes.home(of: number) }
  }
  func home(of attachment: AttachmentID) -> RelayName? { homes.home(of: attachment) }
}

/// A finder of contacts whose waits for peers are no load.
struct UnburdeningFinder: ContactFinder {
  let finder: any ContactFinder
  let load: RequestLoad

  var hasPeers: Bool { finder.hasPeers }
  func find(_ tokens: [ContactToken]) async -> [DirectoryEntry] { await load.elsewhere { await finder.find(tokens) } }
}

/// A sender of codes whose waits for its carrier are no load.
struct UnburdeningSender: VerificationSender {
  let sender: any VerificationSender
  let load: RequestLoad

  func send(_ code: Secret, to number: AccountNumber, by transport: VerificationTransport) async throws(Problem) {
    try await load.elsewhere { () async throws(Problem) in try await sender.send(code, to: number, by: transport) }
  }
}

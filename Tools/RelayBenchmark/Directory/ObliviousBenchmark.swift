import ChildProcesses
import Glibc
import NIOCore
import RelayClient
import RelayCore

/// Measures the cost of oblivious look-ups of a thousand contacts, with an operator of its own that offers them.
struct ObliviousBenchmark: Sendable {
  let servers: ServerGroup

  private static let contacts = 1000
  private static let rounds = 3
  /// That many accounts are registered there besides: each gets an output.
  private static let registered = 200

  /// - Throws: `BenchmarkFailure` when a look-up finds other contacts than those that are registered.
  func run() async throws -> ObliviousFigures {
    note("Measuring oblivious look-ups ...")
    let home = try await servers.addOperator("epsilon", settings: ["RELAY_DIRECTORY_OBLIVIOUS": "true"])
    let process = try await home.start()
    return try await servers.counting(process) {
      let before = try ProcessUsage.cpuSecondsOfProcess(process.pid)
      let accounts = try await Registrar(keyCount: 1).register(Self.registered, firstDigits: 8, at: home.url)
      let account = accounts[0]
      guard let number = PhoneNumber(account.number) else {
        throw BenchmarkFailure("a number of the benchmark is none")
      }
      let client = try RelayClient(
        url: home.url, credentials: Credentials(Correspondent(number), password: account.password))
      var outputs = ObliviousContacts()
      // Before anybody looks them up, which costs as much again.
      try await waitUntil("outputs of registered contacts", while: process, within: .seconds(120)) {
        guard try await Self.evaluated(at: home) >= Self.registered else { throw BenchmarkFailure("some lack theirs") }
      }
      let indexSeconds = try ProcessUsage.cpuSecondsOfProcess(process.pid) - before
      let known = accounts.compactMap { PhoneNumber($0.number).map(ContactTokens.token(for:)) }
      try await waitUntilFound(known, client, &outputs)
      var samples: [(server: Double, client: Double)] = []
      for _ in 0..<Self.rounds { samples.append(try await round(client, process.pid)) }
      return ObliviousFigures(
        contacts: Self.contacts, serverSeconds: samples.map(\.server).median,
        clientSeconds: samples.map(\.client).median, sentBytes: Self.requestBytes, receivedBytes: Self.answerBytes,
        registered: Self.registered, registeringSeconds: indexSeconds)
    }
  }

  /// Contacts that got their outputs.
  private static func evaluated(at home: RelayOperator) async throws -> Int {
    let answer = try await Probe.get("/metrics", port: home.ports.administration)
    let line = String(buffer: answer.body).split(separator: "\n").first {
      $0.hasPrefix("relay_oblivious_evaluated_total ")
    }
    guard let count = line?.split(separator: " ").last.flatMap({ Int($0) }) else {
      throw BenchmarkFailure("\(home.name) does not say how many outputs it has made")
    }
    return count
  }

  private func waitUntilFound(
    _ tokens: [String], _ client: RelayClient, _ outputs: inout ObliviousContacts
  ) async throws {
    let deadline = ContinuousClock.now + .seconds(120)
    while true {
      do throws(RelayClientError) {
        let answer = try await client.lookUpObliviously(tokens, contacts: &outputs)
        if answer.registered == tokens { return }
      } catch {
        guard error.status == 503 else { throw error }
      }
      guard ContinuousClock.now < deadline else { throw BenchmarkFailure("registered contacts have no outputs") }
      try await Task.sleep(for: .milliseconds(100))
    }
  }

  /// Contacts that nobody has asked for, none of them registered.
  private func round(_ client: RelayClient, _ relay: pid_t) async throws -> (server: Double, client: Double) {
    let tokens = (0..<Self.contacts).map { _ in
      ContactToken(high: .random(in: .min ... .max), low: .random(in: .min ... .max)).base64
    }
    var outputs = ObliviousContacts()
    let (server, own) = (try ProcessUsage.cpuSecondsOfProcess(relay), try ProcessUsage.cpuSecondsOfProcess(getpid()))
    let answer = try await client.lookUpObliviously(tokens, contacts: &outputs)
    guard answer.registered.isEmpty else { throw BenchmarkFailure("a contact was found that nobody is") }
    return (
      try ProcessUsage.cpuSecondsOfProcess(relay) - server, try ProcessUsage.cpuSecondsOfProcess(getpid()) - own
    )
  }

  private static let element = [UInt8](repeating: 2, count: ObliviousCodec.elementBytes)
  private static let proof = [UInt8](repeating: 2, count: ObliviousCodec.proofBytes)
  /// The sizes of the bodies.
  private static var requestBytes: Int { ObliviousCodec.request(Array(repeating: element, count: contacts)).count }
  private static var answerBytes: Int {
    ObliviousCodec.answer(key: element, evaluations: Array(repeating: element, count: contacts), proof: proof).count
  }
}

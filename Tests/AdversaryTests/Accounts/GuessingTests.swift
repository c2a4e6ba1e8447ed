// Codes that are guessed, by whoever has as many addresses as it takes.

import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct GuessingTests {
  private let owner = Caller(address: "203.0.113.9")

  /// Two tries at once, and none comes back while the test runs.
  private static let twoTries = Victim.guarded([
    "VERIFY_NUMBER_SIZE": "2", "VERIFY_NUMBER_PER_MINUTE": "0", "VERIFY_DEVICE_SIZE": "2",
    "VERIFY_DEVICE_PER_MINUTE": "0",
  ])

  @Test(arguments: StoreKind.allCases) func `wrong codes count by number, from any address`(kind: StoreKind)
    async throws
  {
    try await Victim.with(kind, settings: Self.twoTries) { victim in
      let relay = victim.relay
      let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
      let code = try await owner.askForCode(device.number, at: relay)
      for index in 0..<2 {
        let answer = try await Caller.stranger(index).confirm(wrong(code), as: device, at: relay)
        #expect(answer.status == 403, "\(answer.text)")
      }
      let answer = try await Caller.stranger(2).confirm(code, as: device, at: relay)
      #expect(answer.status == 413, "\(answer.text)")
      try await victim.withOthers(kind) { others in
        for other in others {
          let answer = try await Caller.stranger(3).confirm(code, as: device, at: other)
          #expect(answer.status == 413, "\(answer.text)")
        }
      }
      // Nor has whoever asked for the code more tries: what is kept for them is a share of the wrong codes.
      #expect(try await owner.confirm(code, as: device, at: relay).status == 413)
    }
  }

  @Test(arguments: StoreKind.allCases) func `wrong linking codes count by number too`(kind: StoreKind) async throws {
    try await Victim.with(kind, settings: Self.twoTries) { victim in
      let relay = victim.relay
      let master = try await owner.register(TestDevice.freshNumber(), at: relay)
      let offered = try await owner.send("GET", "/v1/devices/provisioning/code", as: master, to: relay)
      let code = try #require(offered.object["verificationCode"] as? String)
      let joining = TestDevice(number: master.number, password: "joining")
      let link = { (code: String, caller: Caller) in
        try await caller.send("PUT", "/v1/devices/\(code)", json: Caller.attributes(), as: joining, to: relay).status
      }
      for index in 0..<2 { #expect(try await link(wrong(code), .stranger(index)) == 403) }
      #expect(try await link(code, .stranger(2)) == 413)
      #expect(try await link(code, owner) == 413)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a new code gives no fresh tries`(kind: StoreKind) async throws {
    let settings = Victim.guarded(["WRONG_CODES_HOUR_SIZE": "15", "WRONG_CODES_HOUR_PER_MINUTE": "0"])
    try await Victim.with(kind, settings: settings) { victim in
      try await victim.withOthers(kind) { others in
        let processes = [victim.relay] + others
        let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
        var judged = 0
        for round in 0..<10 {
          // The one who guesses asks for the codes too, and guesses from there as well.
          let code = try await Caller.stranger(round).askForCode(device.number, at: victim.relay)
          for index in 0..<4 {
            let guesser = Caller.stranger(index == 0 ? round : 100 + 10 * round + index)
            let answer = try await guesser.confirm(wrong(code), as: device, at: processes[index % processes.count])
            #expect([403, 413].contains(answer.status), "\(answer.text)")
            judged += answer.status == 403 ? 1 : 0
          }
        }
        #expect(judged == 15)
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `a number can still register with a code asked for after the pause began`(
    kind: StoreKind
  )
    async throws
  {
    let settings = Victim.guarded(["WRONG_CODES_HOUR_SIZE": "15", "WRONG_CODES_HOUR_PER_MINUTE": "0"])
    try await Victim.with(kind, settings: settings) { victim in
      let relay = victim.relay
      let number = TestDevice.freshNumber()
      let guess = { @Sendable (index: Int) in
        try await Caller.stranger(index % 400).confirm(
          "111111", as: TestDevice(number: number, password: "thief"), at: relay)
      }
      for index in 0..<12 { #expect(try await guess(index).status == 403) }
      #expect(try await guess(12).status == 413)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for worker in 0..<4 {
          group.addTask {
            var index = worker
            while !Task.isCancelled {
              let status = try await guess(index).status
              #expect(status == 413)
              index += 4
            }
          }
        }
        let device = try await owner.register(number, at: relay)
        #expect(try await owner.send("GET", "/v1/keys", as: device, to: relay).status == 200)
        group.cancelAll()
        // A request that is cut short when the test has what it wants.
        while await group.nextResult() != nil {}
      }
    }
  }

  /// A code that is answered makes its asker known as one that is sent does.
  @Test(arguments: StoreKind.allCases)
  func `in development, too, a number can register with a code asked for after the pause`(kind: StoreKind) async throws
  {
    let settings = Victim.guarded(["WRONG_CODES_HOUR_SIZE": "15", "WRONG_CODES_HOUR_PER_MINUTE": "0"])
      .merging(["RELAY_DEVELOPMENT_ENABLED": "true"]) { $1 }
    try await Victim.with(kind, settings: settings) { victim in
      let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
      func guess(_ index: Int) async throws -> Int {
        try await Caller.stranger(index).confirm("111111", as: device, at: victim.relay).status
      }
      for index in 0..<12 { #expect(try await guess(index) == 403) }
      #expect(try await guess(12) == 413)
      let asked = try await owner.send("GET", "/v1/accounts/dev/code/\(device.number)", to: victim.relay)
      let code = asked.text.filter(\.isNumber)
      #expect(try await guess(13) == 413)
      #expect(try await owner.confirm(code, as: device, at: victim.relay).status == 200)
    }
  }

  @Test(arguments: StoreKind.allCases) func `a right code uses up no tries`(kind: StoreKind) async throws {
    let settings = Victim.guarded([
      "WRONG_CODES_HOUR_SIZE": "2", "WRONG_CODES_HOUR_PER_MINUTE": "0", "WRONG_CODES_ADDRESS_SIZE": "2",
      "WRONG_CODES_ADDRESS_PER_MINUTE": "0",
    ])
    try await Victim.with(kind, settings: settings) { victim in
      let number = TestDevice.freshNumber()
      for _ in 0..<6 { _ = try await owner.register(number, at: victim.relay) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `wrong codes of an address are bounded, for all numbers together`(
    kind: StoreKind
  )
    async throws
  {
    let settings = Victim.guarded(["WRONG_CODES_ADDRESS_SIZE": "3", "WRONG_CODES_ADDRESS_PER_MINUTE": "0"])
    try await Victim.with(kind, settings: settings) { victim in
      let guess = { (caller: Caller) in
        let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
        return try await caller.confirm("111111", as: device, at: victim.relay).status
      }
      var statuses: [Int] = []
      for _ in 0..<4 { statuses.append(try await guess(.stranger(0))) }
      statuses.append(try await guess(.stranger(1)))
      #expect(statuses == [403, 403, 403, 413, 403])
    }
  }

  @Test(arguments: StoreKind.allCases) func `the codes of a number are bounded by day`(kind: StoreKind) async throws {
    let settings = Victim.guarded(["CODES_DAY_SIZE": "3", "CODES_DAY_PER_MINUTE": "0"])
    try await Victim.with(kind, settings: settings) { victim in
      let number = TestDevice.freshNumber()
      let ask = { (index: Int) in
        try await Caller.stranger(index).send("GET", "/v1/accounts/sms/code/\(number)", to: victim.relay).status
      }
      var statuses: [Int] = []
      for index in 0..<4 { statuses.append(try await ask(index)) }
      statuses.append(
        try await Caller.stranger(3).send("GET", "/v1/accounts/voice/code/\(number)", to: victim.relay).status)
      #expect(statuses == [200, 200, 200, 413, 413])
    }
  }

  @Test(arguments: StoreKind.allCases) func `many networks of one customer are charged as one`(kind: StoreKind)
    async throws
  {
    let settings = Victim.guarded(["VERIFY_ADDRESS_SIZE": "2", "VERIFY_ADDRESS_PER_MINUTE": "0"])
    try await Victim.with(kind, settings: settings) { victim in
      let judged = { (networks: [String]) in
        var judged = 0
        for network in networks {
          let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
          let caller = Caller(address: "\(network)::1")
          judged += try await caller.confirm("111111", as: device, at: victim.relay).status == 403 ? 1 : 0
        }
        return judged
      }
      // Callers of one /64, of one /56, of one /48; and another customer's.
      let counts = [
        try await judged(Array(repeating: "2001:db8:1:0", count: 4)),
        try await judged((1..<20).map { "2001:db8:1:\(String($0, radix: 16))" }),
        try await judged((1..<50).map { "2001:db8:1:\(String($0 * 256, radix: 16))" }),
        try await judged(["2001:db8:2:0"]),
      ]
      #expect(counts == [2, 6, 24, 1])
    }
  }

  @Test(arguments: StoreKind.allCases) func `wrong codes are counted and told`(kind: StoreKind) async throws {
    let settings = Victim.guarded(["WRONG_CODES_HOUR_SIZE": "4", "WRONG_CODES_HOUR_PER_MINUTE": "0"])
    try await Victim.with(kind, settings: settings) { victim in
      let device = TestDevice(number: TestDevice.freshNumber(), password: "p")
      for index in 0..<6 { _ = try await Caller.stranger(index).confirm("111111", as: device, at: victim.relay) }
      let metrics = try await victim.relay.ask("/metrics").text
      #expect(metrics.contains(#"relay_wrong_codes_total{of="registration"} 3"#), "\(metrics)")
      #expect(metrics.contains("relay_numbers_paused_total 1"))
      let lines = victim.relay.log().split(separator: "\n").filter { $0.contains("codes are being guessed") }
      #expect(lines.count == 1)
      #expect(!victim.relay.log().contains(device.number.dropFirst()))
    }
  }
}

import Foundation
import Storage
import TestTags
import Testing

@testable import RelayModel

/// What a file of constants may say, and what is made of its points.
@Suite(.tags(.unit)) struct ConstantsTests {
  private let curve: [[String: Double]] = [
    ["perSecond": 100, "relay": 1, "postgres": 0.4, "redis": 0],
    ["perSecond": 10_000, "relay": 0.01, "postgres": 0.004, "redis": 0],
  ]

  @Test func `the repository's constants can be read, and say which are assumed`() throws {
    let constants = try Samples.committed()
    #expect(constants.assumed.contains("wal") && constants.assumed.contains("wal-flush"))
    #expect(!constants.assumed.contains("deliver") && !constants.assumed.contains("connection-tls"))
    for constant in constants.all {
      #expect(!constant.command.isEmpty && !constant.unit.isEmpty, "\(constant.name)")
      #expect(constant.measured || constant.note != nil, "\(constant.name) is assumed without a reason")
      #expect(constant.machine != "none" || !constant.measured, "\(constant.name) was measured nowhere")
    }
  }

  @Test func `bounds of the program are the program's`() throws {
    let constants = try Samples.committed()
    #expect(constants[.batchMax] == Double(MessageBatcher.Bounds().batchEnvelopesMax))
  }

  @Test func `a cost between two points follows the power law through both`() throws {
    let constants = try Samples.constants(operations: [.accept: curve])
    #expect(abs(constants[.accept].cost(at: 1000).relay - 0.1) < 1e-9)
    #expect(abs(constants[.accept].cost(at: 1000).postgres - 0.04) < 1e-9)
    #expect(constants[.accept].cost(at: 1000).redis == 0)
  }

  @Test func `beyond the points a cost stays as it is`() throws {
    let constants = try Samples.constants(operations: [.accept: curve])
    for rate in [0, 1, 99.9, 100] { #expect(constants[.accept].cost(at: rate).relay == 1) }
    for rate in [10_000, 1e9] { #expect(constants[.accept].cost(at: rate).relay == 0.01) }
  }

  @Test func `no committed operation takes much less CPU for more of it`() throws {
    for operation in try Samples.committed().allOperations {
      var most = 0.0
      for step in 0...200 {
        let rate = 100 * pow(1.03, Double(step))
        let busy = operation.cost(at: rate).total * rate
        #expect(busy >= most * 0.9, "\(operation.name) at \(rate)/s")
        most = max(most, busy)
      }
    }
  }

  @Test func `a look-up costs something for the request and something for each contact`() throws {
    let constants = try Samples.constants(operations: [
      .lookUp1000: [["perSecond": 10, "relay": 2, "postgres": 0, "redis": 1]],
      .lookUp5000: [["perSecond": 10, "relay": 6, "postgres": 0, "redis": 1]],
    ])
    #expect(abs(constants.lookUp(contacts: 3000).relay - 4) < 1e-9)
    #expect(abs(constants.lookUp(contacts: 0).relay - 1) < 1e-9)
    #expect(constants.lookUp(contacts: 20_000).redis == 1)
  }

  @Test func `faults are named`() throws {
    func fault(_ change: (inout [String: Any]) -> Void) -> String {
      do {
        _ = try Samples.constants(changing: change)
        return "none"
      } catch { return "\(error)" }
    }
    func constants(_ change: @escaping (inout [[String: Any]]) -> Void) -> String {
      fault { file in
        var all = file["constants"] as? [[String: Any]] ?? []
        change(&all)
        file["constants"] = all
      }
    }
    func points(_ points: [[String: Double]]) -> String {
      fault { file in
        var all = file["operations"] as? [[String: Any]] ?? []
        all[0]["points"] = points
        file["operations"] = all
      }
    }
    #expect(constants { $0.removeLast() } == "the constant token-wire is missing")
    #expect(constants { $0.append($0[0]) } == "the constant connect-tls comes twice")
    #expect(constants { $0[0]["name"] = "luck" } == "the model knows no constant luck")
    #expect(constants { $0[1]["value"] = -1 } == "the constant connect-plain is -1.0: it has to be 0 or more")
    #expect(constants { $0[1]["machine"] = "there" } == "the machine there is not among the machines")
    #expect(constants { $0[1]["value"] = "1" }.contains("constants.2.value is of the wrong kind"))
    #expect(constants { $0[1]["measured"] = nil }.contains("constants.2 has no measured"))
    #expect(points([]) == "the operation deliver has no points")
    #expect(points([["perSecond": 0, "relay": 1, "postgres": 1, "redis": 1]]).contains("below 0"))
    let slow = ["perSecond": 10.0, "relay": 1, "postgres": 1, "redis": 1]
    #expect(points([slow, slow]) == "the points of the operation deliver have to ascend by their rate")
    let cheap = ["perSecond": 20.0, "relay": 0.1, "postgres": 1, "redis": 1]
    #expect(points([slow, cheap]).contains("takes less CPU at 20.0/s than at 10.0/s"))
    #expect(throws: ModelFailure("the constants cannot be read: it is no JSON")) {
      try Constants(json: Data("constants: none".utf8))
    }
    #expect {
      try Constants(file: "/nowhere/constants.json")
    } throws: { "\($0)".contains("there is no file /nowhere/constants.json: name the constants with --constants") }
  }
}

import Directory
import RelayConfiguration
import RelayCore

/// Checks the processes that hold the parts of the directory, where this process asks them.
struct PartChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  private static let startRemedy =
    "Start processes with the parts, or correct directory.parts: look-ups that need a missing part are refused."

  /// A process's answer.
  private typealias Answer = (location: PartLocation, look: Result<PartClient.Look, PartFailure>)

  var all: [DoctorCheck] {
    guard let locations = site.settings.directory.parts else { return [] }
    return [DoctorCheck(group: .directory, name: "parts") { await parts(locations) }]
  }

  private func parts(_ locations: [PartLocation]) async -> [Finding] {
    guard let storage = await site.usableStorage() else { return [DoctorSite.withoutStore] }
    let client: PartClient
    do throws(StoreError) {
      guard try await storage.serverSecret(ServerKeyName.directoryParts.rawValue) != nil else {
        return [.failed("no process with a part has run on this store", remedy: Self.startRemedy)]
      }
      client = PartClient(key: try await PartKey.read(storage), tls: site.settings.directory.partsTLS)
    } catch {
      return [.failed("\(error)", remedy: StorageChecks.startRemedy)]
    }
    let answers = await Self.ask(locations, client)
    let parts = Dictionary(grouping: answers, by: \.location.part).sorted { $0.key < $1.key }
    return parts.map { part, answers in Self.judge(answers).named("part \(part.text)") }
  }

  private static func ask(_ locations: [PartLocation], _ client: PartClient) async -> [Answer] {
    await withTaskGroup(of: (Int, Answer).self) { group in
      for (index, location) in locations.enumerated() {
        group.addTask {
          do throws(PartFailure) {
            return (index, (location, .success(try await client.look(at: location.address))))
          } catch {
            return (index, (location, .failure(error)))
          }
        }
      }
      var answers: [(Int, Answer)] = []
      for await answer in group { answers.append(answer) }
      return answers.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  /// A part is covered while one of its processes answers.
  private static func judge(_ answers: [Answer]) -> Finding {
    var entries: [Int] = []
    var faults: [String] = []
    for answer in answers {
      switch answer.look {
      case .success(let look): entries.append(look.entries)
      case .failure(let failure): faults.append("\(answer.location.url.text): \(failure)")
      }
    }
    let held = entries.max().map { "\($0) contacts" }
    guard let held else {
      return .failed(
        "no process answers: \(faults.joined(separator: "; "))",
        remedy: startRemedy)
    }
    let text = "\(held), \(entries.count) of \(answers.count) processes answer"
    guard !faults.isEmpty else { return .ok(text) }
    return .warned(
      "\(text): \(faults.joined(separator: "; "))", remedy: "Start it, or take it out of directory.parts.")
  }
}

import PushGateway
import RelayConfiguration
import RelayCore

extension TreeReaders {
  /// The readers of all trees that a relay's configuration has.
  static let relay = TreeReaders { pushApps($0) }

  private static func pushApps(_ tree: JSONValue) -> TreeReport {
    let (faults, warnings): ([PushAppFault], [PushAppFault])
    do throws(PushAppFaults) {
      (faults, warnings) = ([], try PushApps(tree).warnings)
    } catch {
      (faults, warnings) = (error.faults, [])
    }
    return TreeReport(
      summary: PushApps.summary(of: tree),
      findings: faults.map { finding($0, isWarning: false) } + warnings.map { finding($0, isWarning: true) })
  }

  private static func finding(_ fault: PushAppFault, isWarning: Bool) -> TreeReport.Finding {
    .init(at: [fault.app, fault.option].compactMap(\.self), fault.text, isWarning: isWarning)
  }
}

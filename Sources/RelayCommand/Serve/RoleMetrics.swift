import Metrics
import RelayConfiguration
import RelayMetrics

/// Shows which roles this process has. All roles are shown, so that an alert sees a role that no process has.
enum RoleMetrics {
  static func show(_ roles: Roles) {
    for role in Role.allCases { RelayMetric.roles.held.gauge(role.label).record(roles.has(role) ? 1 : 0) }
  }
}

extension Role {
  fileprivate var label: RoleLabel {
    switch self {
    case .clients: .clients
    case .peers: .peers
    case .push: .push
    case .directory: .directory
    }
  }
}

// The process, and the stores behind it.

extension RelayMetric {
  package struct Store: MetricSection {
    package static let (title, owner) = ("The store and the clocks", "RelayCommand/Serve")

    package let writable = SingleGauge(
      "relay_storage_writable", "1 while the store takes writes, 0 while its disk is full or fails.")
    package let clockLead = GaugeMetric<ClockLabel>(
      "relay_clock_lead_seconds", "How far a clock is ahead of the time last seen, in seconds; negative when behind.")
  }

  package struct Roles: MetricSection {
    package static let (title, owner) = ("Roles", "RelayCommand/Serve")

    package let held = GaugeMetric<RoleLabel>(
      "relay_role", "1 while this process has the role, 0 where it leaves it to others.")
  }

  package struct Coordination: MetricSection {
    package static let (title, owner) = ("Redis", "Storage/Coordination")

    package let available = SingleGauge(
      "relay_coordination_available", "1 while Redis answers this process, else 0.")
    package let localDecisions = SingleCounter(
      "relay_coordination_local_decisions_total", "Limits that this process judged alone, since Redis did not answer.")
  }

  package struct Registry: MetricSection {
    package static let (title, owner) = ("Metrics themselves", "Operations")

    package let refused = SingleCounter(
      "relay_metrics_series_refused_total", "Requests for a series beyond the bound on series.")
  }

  /// Under the names of Prometheus' own clients; missing where the system does not tell (elsewhere than on Linux).
  package struct Process: MetricSection {
    package static let (title, owner) = ("The process", "Operations")

    package let cpu = SingleCounter(
      "process_cpu_seconds_total", "CPU time that was spent, user and system, in seconds.")
    package let memory = SingleGauge("process_resident_memory_bytes", "Memory that is resident, in bytes.")
    package let files = SingleGauge("process_open_fds", "File descriptors that are open.")
    package let filesMax = SingleGauge("process_max_fds", "File descriptors that may be open.")
    package let started = SingleGauge(
      "process_start_time_seconds", "When the process started, in seconds since 1970.")
  }
}

// MARK: Labels

package enum RoleLabel: String, ListedLabel {
  package static let name = "role"
  case clients, peers, push, directory
}

package enum ClockLabel: String, ListedLabel {
  package static let name = "of"
  case store, process
}

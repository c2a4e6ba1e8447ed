// The directory in memory, and what looks into it.

extension RelayMetric {
  package struct Directory: MetricSection {
    package static let (title, owner) = ("Directory", "Directory/Feed")

    package let entries = SingleGauge("relay_directory_entries", "Contact tokens in memory.")
    package let bytes = SingleGauge("relay_directory_bytes", "Memory of the table of contact tokens, in bytes.")
    package let lag = SingleGauge(
      "relay_directory_lag_seconds", "How long ago the feed was last read to its end, in seconds.")
    package let changes = SingleCounter(
      "relay_directory_changes_total", "Changes that were read from the directory's feed.")
    package let checks = SingleCounter(
      "relay_directory_checks_total", "Ranges of the table that were compared with the store.")
    package let drift = SingleCounter(
      "relay_directory_drift_total", "Entries that differed from the store's, and were repaired.")
  }

  package struct Parts: MetricSection {
    package static let (title, owner) = ("Parts of the directory", "Directory/Parts")

    package let entries = GaugeMetric<PartLabel>(
      "relay_directory_part_entries", "Contact tokens that a process with the part holds, as it said last.")
    package let processes = GaugeMetric<PartLabel>(
      "relay_directory_part_processes", "Processes with the part that answer this one.")
    package let unanswered = CounterMetric<PartLabel>(
      "relay_directory_part_unanswered_total", "Requests to processes with the part that got no answer in time.")
  }

  package struct Oblivious: MetricSection {
    package static let (title, owner) = ("Oblivious look-ups", "Directory/Oblivious")

    package let answers = SingleCounter(
      "relay_oblivious_answers_total", "Elements that were evaluated for clients in oblivious look-ups.")
    package let evaluated = SingleCounter(
      "relay_oblivious_evaluated_total", "Contacts that got their outputs for oblivious look-ups.")
    package let pending = SingleGauge(
      "relay_oblivious_pending", "Contacts that have no output for oblivious look-ups yet.")
    package let rangesPending = SingleGauge(
      "relay_oblivious_ranges_pending", "Ranges of contacts, of 256, whose outputs were not gone through yet.")
    package let lag = SingleGauge(
      "relay_oblivious_lag_seconds",
      "How long ago the feed was last read to its end for oblivious look-ups, in seconds.")
  }

  package struct Enumeration: MetricSection {
    package static let (title, owner) = ("Enumeration of contacts", "Directory/Edge")

    package let suspicious = CounterMetric<SuspicionLabel>(
      "relay_directory_suspicious_total", "Look-ups that look like an enumeration of numbers.")
  }
}

// MARK: Labels

/// A part of the directory, as `I/N`.
package struct PartLabel: TextLabel {
  package static let name = "part"
  package static let values = LabelValues.described("a part of the directory, `I/N`")
  package let value: String
  package init(value: String) { self.value = value }
}

package enum SuspicionLabel: String, ListedLabel {
  package static let name = "kind"
  /// Hardly any of the contacts is in the directory.
  case hitPoor = "hit-poor"
  /// The numbers are in a row.
  case sequential
}

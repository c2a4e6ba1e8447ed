import CoreMetrics
import TestTags
import Testing

@testable import Operations

@Suite(.tags(.unit)) struct PrometheusRegistryTests {
  @Test func `counters, gauges and their labels are written in text format 0.0.4`() {
    let registry = PrometheusRegistry(
      seriesMax: 10, helps: ["relay_messages_accepted_total": "Messages that were stored.\nAll of them."])
    Counter(label: "messages.accepted", dimensions: [("path", "client"), ("0x", "a\"b\\c\nd")], factory: registry)
      .increment(by: 3)
    Counter(label: "messages.accepted", dimensions: [("path", "peer")], factory: registry).increment()
    FloatingPointCounter(label: "relay_cost", factory: registry).increment(by: 1.5)
    let meter = Meter(label: "queue-length", factory: registry)
    meter.set(5)
    meter.decrement(by: 1.5)
    Gauge(label: "level", factory: registry).record(7)

    let lines = registry.exposition().split(separator: "\n", omittingEmptySubsequences: false)
    #expect(
      lines.starts(with: [
        "# HELP relay_cost_total relay_cost_total",
        "# TYPE relay_cost_total counter",
        "relay_cost_total 1.5",
        "# HELP relay_level relay_level",
        "# TYPE relay_level gauge",
        "relay_level 7",
        "# HELP relay_messages_accepted_total Messages that were stored.\\nAll of them.",
        "# TYPE relay_messages_accepted_total counter",
        "relay_messages_accepted_total{_0x=\"a\\\"b\\\\c\\nd\",path=\"client\"} 3",
        "relay_messages_accepted_total{path=\"peer\"} 1",
        "# HELP relay_queue_length relay_queue_length",
        "# TYPE relay_queue_length gauge",
        "relay_queue_length 3.5",
      ]))
    #expect(lines.last == "", "the page ends with a newline")
  }

  @Test func `metrics of the program that we stand in for keep their names and buckets`() {
    let registry = PrometheusRegistry()
    Counter(label: "sygnal_notifications_received", factory: registry).increment()
    Timer(label: "sygnal_notify_time", dimensions: [("code", "200")], factory: registry).recordMilliseconds(60)
    let lines = registry.exposition().split(separator: "\n")
    #expect(lines.contains("sygnal_notifications_received_total 1"))
    #expect(lines.contains("sygnal_notify_time_bucket{code=\"200\",le=\"0.05\"} 0"))
    #expect(lines.contains("sygnal_notify_time_bucket{code=\"200\",le=\"0.075\"} 1"))
    #expect(lines.contains("sygnal_notify_time_count{code=\"200\"} 1"))
  }

  @Test func `a histogram's buckets are cumulative and end with +Inf, its count and its sum`() {
    let registry = PrometheusRegistry()
    let timer = Timer(label: "request", dimensions: [("route", "messages")], factory: registry)
    timer.recordMilliseconds(1)
    timer.recordMilliseconds(3)
    timer.recordSeconds(60)
    let lines = registry.exposition().split(separator: "\n")
    #expect(lines.contains("# TYPE relay_request_seconds histogram"))
    #expect(lines.contains("relay_request_seconds_bucket{route=\"messages\",le=\"0.0005\"} 0"))
    #expect(lines.contains("relay_request_seconds_bucket{route=\"messages\",le=\"0.001\"} 1"))
    #expect(lines.contains("relay_request_seconds_bucket{route=\"messages\",le=\"0.005\"} 2"))
    #expect(lines.contains("relay_request_seconds_bucket{route=\"messages\",le=\"10\"} 2"))
    #expect(lines.contains("relay_request_seconds_bucket{route=\"messages\",le=\"+Inf\"} 3"))
    #expect(lines.contains("relay_request_seconds_count{route=\"messages\"} 3"))
    #expect(lines.contains("relay_request_seconds_sum{route=\"messages\"} 60.004"))
  }

  @Test func `nothing is lost when many tasks record at once into one series that each makes anew`() async {
    let registry = PrometheusRegistry()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 {
        group.addTask {
          for _ in 0..<1000 {
            Counter(label: "hits", factory: registry).increment()
            FloatingPointCounter(label: "weight", factory: registry).increment(by: 0.5)
            Recorder(label: "size", factory: registry).record(3)
          }
        }
      }
    }
    let lines = registry.exposition().split(separator: "\n")
    #expect(lines.contains("relay_hits_total 8000"))
    #expect(lines.contains("relay_weight_total 4000"))
    #expect(lines.contains("relay_size_sum 24000"))
    #expect(lines.contains("relay_size_bucket{le=\"2\"} 0"))
    #expect(lines.contains("relay_size_bucket{le=\"5\"} 8000"))
  }

  @Test func `the number of series is bounded, what is refused is counted, and what is destroyed makes room`() {
    let registry = PrometheusRegistry(seriesMax: 2)
    let counters = (0..<5).map { Counter(label: "c", dimensions: [("n", "\($0)")], factory: registry) }
    for counter in counters { counter.increment() }
    var text = registry.exposition()
    #expect(text.contains("relay_c_total{n=\"1\"} 1\n"))
    #expect(!text.contains("relay_c_total{n=\"2\"}"))
    #expect(text.contains("\nrelay_metrics_series_refused_total 3\n"))
    counters[0].destroy()
    Counter(label: "c", dimensions: [("n", "new")], factory: registry).increment()
    text = registry.exposition()
    #expect(text.contains("relay_c_total{n=\"new\"} 1\n"))
    #expect(!text.contains("relay_c_total{n=\"0\"}"))
  }

  @Test func `two types of metric under one name stay apart`() {
    let registry = PrometheusRegistry()
    Meter(label: "size", factory: registry).set(1)
    Recorder(label: "size", factory: registry).record(1)
    Counter(label: "n", factory: registry).increment()
    FloatingPointCounter(label: "n", factory: registry).increment(by: 0.5)
    let text = registry.exposition()
    #expect(text.contains("# TYPE relay_size gauge\n"))
    #expect(text.contains("# TYPE relay_size_histogram histogram\n"))
    #expect(text.contains("relay_n_total 1\n"))
    #expect(text.contains("relay_n_total_counter_real 0.5\n"))
  }

  #if os(Linux)
    @Test(
      arguments: [
        "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
        "process_start_time_seconds",
      ])
    func `the process tells its CPU, memory, files and start`(_ name: String) throws {
      let lines = PrometheusRegistry().exposition().split(separator: "\n")
      let line = try #require(lines.first { $0.hasPrefix(name + " ") })
      #expect(try #require(Double(line.dropFirst(name.count + 1))) > 0)
    }
  #endif
}

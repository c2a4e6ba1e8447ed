package import Testing

/// The needs of a suite. Every suite has exactly one of these tags; scripts/test-groups.py makes the groups of
/// scripts/run-tests.sh from them.
extension Tag {
  /// Neither a server nor another process.
  @Tag package static var unit: Self

  /// As `unit`, but computes for seconds on end: tests that wait for something starve beside it.
  @Tag package static var computing: Self

  /// PostgreSQL, Redis, S3 or SQLite.
  @Tag package static var stores: Self

  /// Relay processes, real clients, other programs.
  @Tag package static var processes: Self

  /// Measures time, or stops and kills things. Runs with nothing beside it.
  @Tag package static var time: Self
}

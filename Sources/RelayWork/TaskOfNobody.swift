extension Task where Success == Void, Failure == Never {
  /// Begins work that serves whoever comes, such as the next batch. It inherits nothing of the task that happened to
  /// begin it but the priority: what it logs is not about that one's request.
  @inlinable
  public static func ofNobody(_ work: @escaping @Sendable () async -> Void) {
    _ = Task<Void, Never>.detached(priority: Task<Never, Never>.currentPriority) { await work() }
  }
}

// What is sent to PostgreSQL.

/// The text of one SQL command.
enum PostgresStatement: Sendable {
  /// Prepared by a connection when it first meets it. The name is unique in the program.
  case prepared(_ name: StaticString, _ sql: StaticString)
  /// Made at run time, runs once.
  case once(_ sql: String)

  /// For errors: never the text.
  var label: String {
    switch self {
    case .prepared(let name, _): name.description
    case .once: "a schema statement"
    }
  }
}

/// A command with its values.
struct PostgresStep: Sendable {
  let statement: PostgresStatement
  let parameters: PostgresParameters

  init(_ statement: PostgresStatement, _ parameters: PostgresParameters = .none) {
    self.statement = statement
    self.parameters = parameters
  }
}

extension [PostgresStep] {
  /// What the values weigh.
  var byteCount: Int { reduce(0) { $0 + $1.parameters.bytes.count } }
}

/// Steps that share one fate, and who waits for them.
///
/// Touched by the connection's thread alone once submitted.
final class PostgresRequest: @unchecked Sendable {
  typealias Outcome = Result<[PostgresResult], PostgresError>

  let steps: [PostgresStep]
  /// Whether the steps make a transaction of their own. Reads share one with their neighbours.
  let isTransaction: Bool
  let byteCount: Int
  let submitted: ContinuousClock.Instant
  private let completion: @Sendable (Outcome) -> Void

  /// What the steps sent so far returned.
  var results: [PostgresResult] = []
  private(set) var isFinished = false
  /// How often it was sent.
  var attempts = 0

  init(steps: [PostgresStep], isTransaction: Bool, completion: @escaping @Sendable (Outcome) -> Void) {
    self.steps = steps
    self.isTransaction = isTransaction
    self.completion = completion
    byteCount = steps.byteCount
    submitted = .now
  }

  /// Hands `outcome` to whoever waits; the first call counts.
  func finish(_ outcome: Outcome) {
    guard !isFinished else { return }
    isFinished = true
    completion(outcome)
  }
}

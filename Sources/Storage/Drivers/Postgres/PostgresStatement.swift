// Statements as they are sent to PostgreSQL.

/// The text of one SQL command.
enum PostgresStatement: Sendable {
  /// Prepared by a connection when it first meets it. The name is unique in the program.
  case prepared(_ name: StaticString, _ text: PostgresQuery.Text)
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

  /// A statement that each connection prepares when it first meets it.
  /// - Parameter name: unique in the program. It stands in errors; the text and the values never do.
  init(_ name: StaticString, _ query: PostgresQuery) {
    statement = .prepared(name, query.text)
    parameters = query.parameters
  }

  /// A statement that runs too seldom for a connection to keep it prepared.
  init(once query: PostgresQuery) {
    statement = .once(query.text.sql)
    parameters = query.parameters
  }
}

extension [PostgresStep] {
  /// The bytes of the values.
  var byteCount: Int { reduce(0) { $0 + $1.parameters.bytes.count } }
}

/// With whom the steps of a request share a transaction.
enum PostgresSharing: Sendable {
  /// With reads sent beside it. Answered as soon as its own answer is there.
  case reads
  /// With others of its kind, answered by the commit of all: it costs a tenth of one of its own. For steps that wait
  /// for no lock, or two processes would wait for each other.
  case writes
  case alone
}

/// Steps that share one fate, and who waits for them.
///
/// Touched by the connection's thread alone once submitted.
final class PostgresRequest: @unchecked Sendable {
  typealias Outcome = Result<[PostgresResult], PostgresError>

  let steps: [PostgresStep]
  let sharing: PostgresSharing
  let byteCount: Int
  let submitted: ContinuousClock.Instant
  private let completion: @Sendable (Outcome) -> Void

  /// The results of the steps so far.
  var results: [PostgresResult] = []
  /// How often it was sent.
  var attempts = 0
  private(set) var isFinished = false

  init(steps: [PostgresStep], sharing: PostgresSharing, completion: @escaping @Sendable (Outcome) -> Void) {
    self.steps = steps
    self.sharing = sharing
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

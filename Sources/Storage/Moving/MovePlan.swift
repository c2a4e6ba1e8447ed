import RelayCore

/// One table with all of its columns, as it is moved.
struct MovePlan: Sendable {
  let table: MovedTable
  /// The columns of the key, which are among them.
  let columns: [MovedColumn]
  let key: [MovedColumn]
  /// Whether writing rows sets triggers off that are about requests of clients.
  let hasTriggers: Bool

  /// - Parameters:
  ///   - source: columns of each table of the embedded store.
  ///   - target: types of the columns of each table of the database.
  ///   - triggers: tables of the database that have some.
  /// - Throws: `.corrupted` naming what neither equal names nor `MovedTable` provide for: a defect of this build.
  static func all(
    source: [String: [String]], target: [String: [String: String]], triggers: Set<String>
  ) throws(StoreError) -> [MovePlan] {
    let tables = MovedTable.all
    let unknown = Set(source.keys).subtracting(tables.map(\.name)).subtracting(MovedTable.left)
      .union(Set(target.keys).subtracting(tables.map(\.name)).subtracting(MovedTable.made))
    guard unknown.isEmpty else {
      throw .corrupted(reason: "this build cannot move the tables \(unknown.sorted().joined(separator: ", "))")
    }
    var plans: [MovePlan] = []
    for table in tables {
      guard let columns = source[table.name], let types = target[table.name] else {
        throw .corrupted(reason: "there is no table \(table.name) to move")
      }
      plans.append(try MovePlan(table, columns, types, hasTriggers: triggers.contains(table.name)))
    }
    return plans
  }

  private init(
    _ table: MovedTable, _ names: [String], _ types: [String: String], hasTriggers: Bool
  ) throws(StoreError) {
    self.table = table
    self.hasTriggers = hasTriggers
    var columns: [MovedColumn] = []
    for name in names {
      if let form = table.special[name] {
        columns.append(MovedColumn(name, form))
        continue
      }
      guard let column = MovedColumn(name, type: types[name] ?? "") else {
        throw .corrupted(reason: "this build cannot move the column \(name) of \(table.name)")
      }
      columns.append(column)
    }
    let written = Set(columns.flatMap { $0.form.written.map(\.column) }).union(table.filled)
    let missing = Set(types.keys).subtracting(written)
    let key = table.key.compactMap { name in columns.first { $0.name == name } }
    guard missing.isEmpty, key.count == table.key.count else {
      let names = missing.sorted().joined(separator: ", ")
      throw .corrupted(reason: "this build does not fill \(names) of \(table.name)")
    }
    self.columns = columns
    self.key = key
  }

  func row(_ values: [MovedValue]) -> MovedRow {
    MovedRow(
      key: key.map { column in columns.firstIndex { $0.name == column.name }.map { values[$0] } ?? .null },
      values: values)
  }
}

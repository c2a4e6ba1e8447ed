/// A table in Markdown that can be read as it is, too. The first column is of words, the others are of numbers unless
/// they are said to be words.
struct TextTable {
  let header: [String]
  let rows: [[String]]
  /// Columns that are set to the left.
  var words: Set<Int> = [0]

  var lines: [String] {
    let all = [header] + rows
    let widths = header.indices.map { column in max(3, all.map { $0[column].count }.max() ?? 3) }
    func line(_ cells: [String]) -> String {
      let padded = cells.enumerated().map { column, cell in
        let room = String(repeating: " ", count: widths[column] - cell.count)
        return words.contains(column) ? cell + room : room + cell
      }
      return "| " + padded.joined(separator: " | ") + " |"
    }
    let rule = widths.enumerated().map { column, width in
      words.contains(column) ? String(repeating: "-", count: width) : String(repeating: "-", count: width - 1) + ":"
    }
    return [line(header), "| " + rule.joined(separator: " | ") + " |"] + rows.map(line)
  }
}

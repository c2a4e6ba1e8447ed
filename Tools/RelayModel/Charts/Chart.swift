/// A picture of lines or bars over two axes.
struct Chart: Sendable {
  struct Series: Sendable {
    let name: String
    let points: [(x: Double, y: Double)]
  }
  /// A level that is not to be passed.
  struct Level: Sendable {
    let name: String
    let y: Double
  }

  let title: String
  /// What is to be seen, in words.
  let description: String
  let x: Axis
  let y: Axis
  /// Four at most.
  let series: [Series]
  var levels: [Level] = []
  var isBars = false

  private static let (width, height) = (720.0, 380.0)
  private static let (left, right, top, bottom) = (74.0, 24.0, 66.0, 54.0)
  /// Points of a line that are drawn.
  private static let pointsMax = 400

  var svg: String {
    var svg = SVG(width: Self.width, height: Self.height)
    svg.rectangle(x: 0, y: 0, width: Self.width, height: Self.height, style: "ground")
    svg.text(title, x: Self.left, y: 24, style: "title")
    drawAxes(&svg)
    for (index, series) in series.enumerated() {
      if isBars { drawBars(series, index, &svg) } else { drawLine(series, index, &svg) }
    }
    for level in levels {
      let height = place(y: level.y)
      svg.line(from: (Self.left, height), to: (Self.width - Self.right, height), style: "bound")
      svg.text(level.name, x: Self.width - Self.right - 4, y: height - 5, anchor: "end")
    }
    drawLegend(&svg)
    return svg.document(title: title, description: description)
  }

  private func place(x value: Double) -> Double { Self.left + x.place(value) * (Self.width - Self.left - Self.right) }
  private func place(y value: Double) -> Double {
    Self.height - Self.bottom - y.place(value) * (Self.height - Self.top - Self.bottom)
  }

  private func drawAxes(_ svg: inout SVG) {
    let (floor, ceiling) = (Self.height - Self.bottom, Self.top)
    for tick in y.ticks {
      let height = place(y: tick)
      svg.line(from: (Self.left, height), to: (Self.width - Self.right, height), style: "grid")
      svg.text(y.text(tick), x: Self.left - 8, y: height + 4, anchor: "end")
    }
    for tick in x.ticks {
      let place = place(x: tick)
      svg.line(from: (place, floor), to: (place, floor + 5), style: "axis")
      svg.text(x.text(tick), x: place, y: floor + 19, anchor: "middle")
    }
    svg.line(from: (Self.left, ceiling), to: (Self.left, floor), style: "axis")
    svg.line(from: (Self.left, floor), to: (Self.width - Self.right, floor), style: "axis")
    svg.text(x.label, x: (Self.left + Self.width - Self.right) / 2, y: Self.height - 14, anchor: "middle")
    svg.text(y.label, x: 8, y: Self.top - 10)
  }

  private func drawLine(_ series: Series, _ index: Int, _ svg: inout SVG) {
    let step = max(1, series.points.count / Self.pointsMax)
    let last = series.points.count - 1
    let drawn = series.points.indices.filter { $0 % step == 0 || $0 == last }.map { series.points[$0] }
    svg.polyline(drawn.map { (place(x: $0.x), place(y: $0.y)) }, style: "line\(index % 4)")
  }

  private func drawBars(_ series: Series, _ index: Int, _ svg: inout SVG) {
    let room = (Self.width - Self.left - Self.right) / Double(max(1, series.points.count)) / 1.6
    let width = room / Double(max(1, self.series.count))
    for point in series.points {
      let (middle, height) = (place(x: point.x), place(y: point.y))
      svg.rectangle(
        x: middle - room / 2 + Double(index) * width, y: height, width: width * 0.9,
        height: Self.height - Self.bottom - height, style: "fill\(index % 4)")
    }
  }

  /// Names that do not fit into the row above the axes stand in one more, above it.
  private func drawLegend(_ svg: inout SVG) {
    let begin = Self.left + 200
    var (x, y) = (begin, Self.top - 10)
    for (index, series) in series.enumerated() where self.series.count > 1 {
      let width = 46 + Double(series.name.count) * 6.6
      if x > begin, x + width > Self.width { (x, y) = (begin, y - 16) }
      if isBars {
        svg.rectangle(x: x, y: y - 12, width: 24, height: 10, style: "fill\(index % 4)")
      } else {
        svg.line(from: (x, y - 4), to: (x + 24, y - 4), style: "line\(index % 4)")
      }
      svg.text(series.name, x: x + 30, y: y)
      x += width
    }
  }
}

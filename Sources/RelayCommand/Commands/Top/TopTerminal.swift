import Foundation
import Glibc

enum TopClock {
  static func secondsSince1970() -> Double { Date().timeIntervalSince1970 }

  /// `HH:MM:SS`, of this host.
  static func timeOfDay() -> String {
    let parts = Calendar.current.dateComponents([.hour, .minute, .second], from: Date())
    return [parts.hour, parts.minute, parts.second].map { String(format: "%02d", $0 ?? 0) }.joined(separator: ":")
  }
}

/// The terminal while a live view has it: its second screen, keys without echo. `restore` gives it back.
final class TopTerminal {
  private var former = termios()

  /// - Returns: nil where standard output or input is no terminal.
  init?() {
    guard isatty(STDOUT_FILENO) == 1, tcgetattr(STDIN_FILENO, &former) == 0 else { return nil }
    var raw = former
    // Control-C is a key too: whatever ends the view gives the terminal back.
    raw.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
    tcsetattr(STDIN_FILENO, TCSANOW, &raw)
    Self.write("\u{1B}[?1049h\u{1B}[?25l")
  }

  func restore() {
    Self.write("\u{1B}[?25h\u{1B}[?1049l")
    tcsetattr(STDIN_FILENO, TCSANOW, &former)
  }

  /// Columns and rows, as they are now.
  static var size: (columns: Int, rows: Int) {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
    return (Int(size.ws_col), Int(size.ws_row))
  }

  /// As many lines as there are rows, in the place of the former.
  func show(_ lines: [String]) {
    let shown = lines.prefix(Self.size.rows)
    Self.write("\u{1B}[H" + shown.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n") + "\u{1B}[J")
  }

  /// Waits for a key, for `seconds` at most.
  /// - Returns: whether the view is to end: `q`, Control-C, or no more input.
  func ends(within seconds: Double) -> Bool {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while true {
      let left = (deadline - .now) / .milliseconds(1)
      guard left > 0 else { return false }
      var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
      guard poll(&input, 1, Int32(min(left.rounded(.up), 60_000))) > 0 else { continue }
      var key: UInt8 = 0
      guard read(STDIN_FILENO, &key, 1) == 1 else { return true }
      if key == UInt8(ascii: "q") || key == UInt8(ascii: "Q") || key == 3 { return true }
    }
  }

  private static func write(_ text: String) {
    try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
  }
}

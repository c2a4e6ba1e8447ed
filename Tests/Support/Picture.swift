import ChildProcesses
package import Foundation

/// The pixels of a PNG, by Debian's `pngtopnm`.
package struct Picture: Sendable {
  package let width: Int
  package let height: Int
  /// Red, green, blue; row after row.
  private let bytes: [UInt8]

  package init(png: Data) async throws {
    let pixels = try await Loopback.blocking { try Self.pixels(of: png) }
    // P6, width, height, the greatest value, and the pixels behind one more space.
    var words: [Int] = []
    var place = 2
    while words.count < 3, place < pixels.count {
      guard let start = pixels[place...].firstIndex(where: { $0 > 0x20 }),
        let end = pixels[start...].firstIndex(where: { $0 <= 0x20 }),
        let word = Int(String(decoding: pixels[start..<end], as: UTF8.self))
      else { throw TestFailure("no picture") }
      words.append(word)
      place = end
    }
    guard words.count == 3, pixels.count == place + 1 + words[0] * words[1] * 3 else { throw TestFailure("no picture") }
    (width, height) = (words[0], words[1])
    bytes = Array(pixels[(place + 1)...])
  }

  /// How many pixels have nearly this colour.
  package func count(near colour: (red: Int, green: Int, blue: Int), within distance: Int = 40) -> Int {
    stride(from: 0, to: bytes.count, by: 3).count { place in
      abs(Int(bytes[place]) - colour.red) + abs(Int(bytes[place + 1]) - colour.green)
        + abs(Int(bytes[place + 2]) - colour.blue) <= distance
    }
  }

  /// The share of pixels that are not of the most frequent colour, 0 to 1: nothing is drawn where it is 0.
  package var ink: Double {
    var counts: [Int: Int] = [:]
    for place in stride(from: 0, to: bytes.count, by: 3) {
      counts[Int(bytes[place]) << 16 | Int(bytes[place + 1]) << 8 | Int(bytes[place + 2]), default: 0] += 1
    }
    return 1 - Double(counts.values.max() ?? 0) / Double(max(1, width * height))
  }

  private static func pixels(of png: Data) throws -> [UInt8] {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-picture-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer {
      // A leftover in the temporary folder hurts nobody.
      try? FileManager.default.removeItem(at: folder)
    }
    let (file, output) = (folder.appending(path: "picture.png"), folder.appending(path: "picture.ppm"))
    try png.write(to: file)
    let exit = try ChildProcess.run(
      .init(
        command: ["/bin/sh", "-c", "pngtopnm \"$0\" | ppmtoppm", file.path], environment: ["PATH": "/usr/bin:/bin"],
        standardOutput: output.path, standardError: folder.appending(path: "errors").path))
    guard exit == .code(0) else { throw TestFailure("pngtopnm: \(exit)") }
    return Array(try Data(contentsOf: output))
  }
}

import Foundation

/// Tells the waiting user of the campaign's progress. A failure is ignored: if the output is closed, there is no
/// reader to tell.
func tell(_ line: String) { try? FileHandle.standardOutput.write(contentsOf: Data("campaign: \(line)\n".utf8)) }

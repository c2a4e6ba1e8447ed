import Foundation

/// Tells the waiting user of the progress. A failure is ignored: if the output is closed, there is no reader to tell.
func note(_ line: String) { try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8)) }

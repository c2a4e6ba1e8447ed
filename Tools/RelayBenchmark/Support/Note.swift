import Foundation

/// Tells the person who waits how far it is. Nobody is left to tell of a closed output.
func note(_ line: String) { try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8)) }

import CSodium

/// The system's library that computes, as this process has it.
package enum SodiumLibrary {
  package static var version: String { String(cString: sodium_version_string()) }
}

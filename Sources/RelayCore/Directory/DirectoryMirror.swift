/// The directory as this process has it in memory, for those who change what it shows. Implemented by Directory, used
/// by Relay.
package protocol DirectoryMirror: Sendable {
  /// Returns when look-ups of this process show what was committed before the call; or after a second at most, and then
  /// they show it later. So a client finds here what it has just been told is done. Never throws.
  func catchUp() async
}

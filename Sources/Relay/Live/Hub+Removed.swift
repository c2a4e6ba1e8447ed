import RelayCore

extension Hub {
  /// The device itself has removed what stood at `sequence` of its mailbox, over HTTP: its connection here holds it no
  /// longer.
  func removed(_ sequence: Int64, from mailbox: DeviceAddress) { session(of: mailbox)?.removed(sequence: sequence) }
}

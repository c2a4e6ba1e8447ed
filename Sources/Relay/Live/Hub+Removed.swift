package import RelayCore

extension Hub {
  package func removed(_ sequence: Int64, from mailbox: DeviceAddress) {
    session(of: mailbox)?.removed(sequence: sequence)
  }
}

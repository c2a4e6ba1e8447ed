#if PLANTED_FAULTS
  import RelayCore

  /// A watch that learns no place: all messages are read from the store.
  struct ReadingWatch: AppendWatch {
    private let watch: any AppendWatch

    init(_ watch: any AppendWatch) { self.watch = watch }

    func watches(_ mailbox: DeviceAddress) -> Bool { false }
    func stored(_ messages: [AppendedEnvelope]) { watch.stored(messages) }
  }
#endif

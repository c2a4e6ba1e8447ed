package import Logging

/// The parts that every session works with.
package struct SessionParts: Sendable {
  let hub: Hub
  let reader: MailboxReader
  let acknowledgements: Acknowledgements
  let router: SocketRouter
  let logger: Logger

  package init(
    hub: Hub, reader: MailboxReader, acknowledgements: Acknowledgements, router: SocketRouter, logger: Logger
  ) {
    self.hub = hub
    self.reader = reader
    self.acknowledgements = acknowledgements
    self.router = router
    self.logger = logger
  }
}

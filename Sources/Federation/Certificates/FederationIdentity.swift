package import Logging
import NIOSSL
package import RelayCore
import RelayHTTP
import ServiceLifecycle

/// This relay's identity to peers: the credentials in `federation.directory` and our CA's statement. Both are
/// followed while the relay runs.
///
/// New connections in both directions use the present files. Open connections live on.
package final class FederationIdentity: Service {
  private struct Loaded: Sendable {
    let credentials: FederationCredentials
    let serverContext: NIOSSLContext
    /// JSON, as peers read it; nil when nothing has been said, or it cannot be read.
    let statement: [UInt8]?
  }

  private let files: Reloading<Loaded, FederationError>
  /// The leaves that peers have shown to this process.
  let seenLeaves = SeenLeaves()

  /// - Throws: as `IdentityFolder.load`.
  package init(
    folder: IdentityFolder, name: RelayName, interval: Duration = .seconds(2), logger: Logger
  ) throws(FederationError) {
    files = try Reloading(
      files: [
        folder.authorityFile, folder.nextAuthorityFile, folder.leafFile, folder.leafKeyFile, folder.nextLeafKeyFile,
        folder.statementFile,
      ], interval: interval, logger: logger
    ) { () throws(FederationError) in
      let credentials = try folder.load(for: name)
      let context = try folder.making { try credentials.serverContext() }
      let statement = Self.statement(in: folder, of: credentials, logger)
      return Loaded(credentials: credentials, serverContext: context, statement: statement)
    }
  }

  package var credentials: FederationCredentials { files.current.credentials }
  var serverContext: NIOSSLContext { files.current.serverContext }
  var statement: [UInt8]? { files.current.statement }

  package func run() async throws { try await files.run() }

  /// A statement that cannot be read keeps nobody from serving.
  private static func statement(
    in folder: IdentityFolder, of credentials: FederationCredentials, _ logger: Logger
  ) -> [UInt8]? {
    do {
      guard let signed = try folder.loadStatement() else { return nil }
      if signed.statement.revokedSerials.contains(credentials.leaf.serial) {
        logger.error("our certificate is revoked, peers refuse it: run `relay ca issue`")
      }
      return try signed.json()
    } catch {
      logger.error("our CA's statement is not shown to peers", metadata: ["error": "\(error)"])
      return nil
    }
  }
}

package import Logging
import NIOSSL
package import RelayCore
import RelayHTTP
import ServiceLifecycle

/// Who we are to peers: the credentials in `federation.directory`, followed while the relay runs.
///
/// New connections in both directions use what the files hold now; open ones live on.
package final class FederationIdentity: Service {
  private struct Loaded: Sendable {
    let credentials: FederationCredentials
    let serverContext: NIOSSLContext
  }

  private let files: Reloading<Loaded, FederationError>

  /// - Throws: as `IdentityFolder.load`.
  package init(
    folder: IdentityFolder, name: RelayName, interval: Duration = .seconds(2), logger: Logger
  ) throws(FederationError) {
    files = try Reloading(
      files: [folder.authorityFile, folder.leafFile, folder.leafKeyFile], interval: interval, logger: logger
    ) { () throws(FederationError) in
      let credentials = try folder.load(for: name)
      let context = try folder.making { try credentials.serverContext() }
      return Loaded(credentials: credentials, serverContext: context)
    }
  }

  package var credentials: FederationCredentials { files.current.credentials }
  var serverContext: NIOSSLContext { files.current.serverContext }

  /// Looks at the files now instead of at the next interval.
  @discardableResult
  package func reloadIfChanged() -> Bool { files.reloadIfChanged() }

  package func run() async throws { try await files.run() }
}

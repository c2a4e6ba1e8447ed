package import Hummingbird
import RelayCore
package import RelayHTTP

/// Proves which device a request comes from (reference 1.2).
///
/// Unknown number, unknown device and wrong password cannot be told apart, neither by the answer nor by its time.
package struct Authentication: RouterMiddleware {
  let accounts: AccountCache

  package init(accounts: AccountCache) { self.accounts = accounts }

  /// A request over a WebSocket comes from the device that opened it.
  package func handle(
    _ request: Request, context: ClientContext, next: (Request, ClientContext) async throws -> Response
  ) async throws -> Response {
    guard context.caller == nil else { return try await next(request, context) }
    guard let credentials = BasicCredentials(header: request.headers[.authorization]) else {
      throw Problem(.unauthorized)
    }
    var context = context
    context.caller = try await accounts.caller(credentials)
    return try await next(request, context)
  }
}

/// A device that has proved itself, and by what it did.
struct ProvedDevice: Sendable {
  let address: DeviceAddress
  /// Salted anew for every device and installation, so never equal by chance or by a password that is kept.
  let password: PasswordHash
}

extension AccountCache {
  /// - Throws: `.unauthorized`, `.unavailable`.
  func caller(_ credentials: BasicCredentials) async throws(Problem) -> Caller {
    var caller: Caller?
    do throws(StoreError) {
      let (account, isDated) = try await reading(of: credentials.address.account)
      caller = prove(credentials, by: account)
      // Another process may just have linked the device, or registered it anew.
      if caller == nil, isDated { caller = prove(credentials, by: try await readInDoubt(credentials.address.account)) }
    } catch {
      throw Problem(error)
    }
    guard let caller else { throw Problem(.unauthorized) }
    return caller
  }

  private func prove(_ credentials: BasicCredentials, by account: Account?) -> Caller? {
    let (address, password) = (credentials.address, account?.device(credentials.address.device)?.password)
    guard Passwords.verify(credentials.password, against: password), let account, let password else { return nil }
    return caller(ProvedDevice(address: address, password: password), account)
  }

  /// - Returns: nil when the device is not any more the one that proved itself.
  func caller(_ device: ProvedDevice) async throws(Problem) -> Caller? {
    guard let account = try await lookUp(device.address.account),
      account.device(device.address.device)?.password == device.password
    else { return nil }
    return caller(device, account)
  }

  private func caller(_ device: ProvedDevice, _ account: Account) -> Caller {
    Caller(address: device.address, account: account) { [self] () async throws(Problem) in
      try await lookUp(device.address.account)?.device(device.address.device)?.password == device.password
    }
  }

  /// `account(_:)` for the edge: a store's failure as the problem it is to a client.
  func lookUp(_ number: AccountNumber) async throws(Problem) -> Account? {
    do throws(StoreError) {
      return try await account(number)
    } catch {
      throw Problem(error)
    }
  }
}

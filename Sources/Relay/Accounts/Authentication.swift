package import Hummingbird
import RelayCore
package import RelayHTTP

/// Proves which device a request comes from (reference 1.2).
///
/// Unknown number, unknown device and wrong password cannot be told apart, neither by the answer nor by its time.
package struct Authentication: RouterMiddleware {
  let accounts: AccountCache

  package init(accounts: AccountCache) { self.accounts = accounts }

  package func handle(
    _ request: Request, context: ClientContext, next: (Request, ClientContext) async throws -> Response
  ) async throws -> Response {
    guard let credentials = BasicCredentials(header: request.headers[.authorization]) else {
      throw Problem(.unauthorized)
    }
    var context = context
    context.caller = try await caller(credentials)
    return try await next(request, context)
  }

  private func caller(_ credentials: BasicCredentials) async throws(Problem) -> Caller {
    let account = try await accounts.lookUp(credentials.address.account)
    let (address, password) = (credentials.address, account?.device(credentials.address.device)?.password)
    guard Passwords.verify(credentials.password, against: password), let account else {
      throw Problem(.unauthorized)
    }
    return Caller(address: address, account: account) { [accounts] () async throws(Problem) in
      // Salted anew for every device and installation, so never equal by chance or by a password that is kept.
      try await accounts.lookUp(address.account)?.device(address.device)?.password == password
    }
  }
}

extension AccountCache {
  /// `account(_:)` for the edge: a store's failure as the problem it is to a client.
  func lookUp(_ number: AccountNumber) async throws(Problem) -> Account? {
    do throws(StoreError) {
      return try await account(number)
    } catch {
      throw Problem(error)
    }
  }
}

// What proves a registration, apart from the registration itself: its code, looked at before, and number tokens, drawn.

package import RelayCore

extension PostgresStorage {
  package func checkVerificationCode(_ code: Secret, for number: AccountNumber, triesMax: Int, now: Timestamp)
    async throws(StoreError) -> Bool
  {
    let code = try await knownCodes.value(in: self).stored(code, .registration, of: number)
    let results = try await write([
      PostgresStep(
        .prepared(
          "check_code",
          """
          UPDATE verification_codes AS v SET tries = v.tries + CASE WHEN v.code = $2::bytea THEN 0 ELSE 1 END
          WHERE v.account = $1::bigint AND v.expires > $3::bigint
          RETURNING v.code = $2::bytea AS is_right
          """),
        PostgresParameters {
          $0.add(account: number)
          $0.add(code: code)
          $0.add(bigint: now.millis)
        }),
      Self.spendStep(number, triesMax: Int64(triesMax)),
    ])
    guard let decision = results.first, decision.rowCount == 1 else { return false }
    var row = decision.cursor(row: 0)
    return try row.boolean()
  }

  /// Behind the account's row, so that the password is that of the last registration.
  package func drawNumberToken(for number: AccountNumber, by password: PasswordHash, now: Timestamp)
    async throws(StoreError) -> Int64?
  {
    let results = try await write([
      Self.lockStep(number),
      PostgresStep(
        .prepared(
          "draw_number_token",
          """
          UPDATE accounts AS a
          SET number_token_drawn = greatest($4::bigint, a.number_token_drawn, a.number_token_floor + 1)
          FROM devices AS d
          WHERE a.account = $1::bigint AND d.account = $1::bigint AND d.device = 1
            AND d.password_salt = $2::bytea AND d.password_hash = $3::bytea
          RETURNING a.number_token_drawn
          """),
        PostgresParameters {
          $0.add(account: number)
          $0.add(password: password)
          $0.add(bigint: now.second)
        }),
    ])
    guard let drawn = results.last, drawn.rowCount == 1 else { return nil }
    var row = drawn.cursor(row: 0)
    return try row.bigint()
  }
}

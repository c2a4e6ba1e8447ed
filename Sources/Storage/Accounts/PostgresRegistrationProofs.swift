// The proofs of a registration, apart from the registration itself: its code, looked at before, and number tokens,
// drawn.

package import RelayCore

extension PostgresStorage {
  package func checkVerificationCode(_ code: Secret, for number: AccountNumber, triesMax: Int, now: Timestamp)
    async throws(StoreError) -> Bool
  {
    let code = PostgresParameter(
      try await knownCodes.value(in: self).stored(code, .registration, of: number))
    let results = try await write([
      PostgresStep(
        "check_code",
        """
        UPDATE verification_codes AS v SET tries = v.tries + CASE WHEN v.code = \(code) THEN 0 ELSE 1 END
        WHERE v.account = \(number) AND v.expires > \(now)
        RETURNING v.code = \(code) AS is_right
        """),
      Self.spendStep(number, triesMax: Int64(triesMax)),
    ])
    return try results[0].first { (row) throws(StoreError) in try row.boolean() } ?? false
  }

  /// Behind the account's row, so that the password is that of the last registration.
  package func drawNumberToken(for number: AccountNumber, by password: PasswordHash, now: Timestamp)
    async throws(StoreError) -> Int64?
  {
    let account = PostgresParameter(number)
    let results = try await write([
      Self.lockStep(number),
      PostgresStep(
        "draw_number_token",
        """
        UPDATE accounts AS a
        SET number_token_drawn = greatest(\(now.second), a.number_token_drawn, a.number_token_floor + 1)
        FROM devices AS d
        WHERE a.account = \(account) AND d.account = \(account) AND d.device = 1
          AND d.password_salt = \(password.salt) AND d.password_hash = \(password.hash)
        RETURNING a.number_token_drawn
        """),
    ])
    return try results[1].first { (row) throws(StoreError) in try row.bigint() }
  }
}

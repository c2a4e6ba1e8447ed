import AsyncHTTPClient
import Attachments
import ChildProcesses
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@Suite(.tags(.processes)) struct S3SignatureTests {
  /// 2013-05-24T00:00:00Z.
  private static let published = Timestamp(millis: 1_369_353_600_000)

  /// The example of AWS's documentation, "Authenticating Requests: Using Query Parameters".
  @Test func `a presigned GET is the published one`() {
    let signature = S3Signature(
      region: "us-east-1", accessKey: "AKIAIOSFODNN7EXAMPLE",
      secretKey: Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
    let query = signature.query(
      "GET", host: "examplebucket.s3.amazonaws.com", path: "/test.txt", now: Self.published, seconds: 86_400)
    #expect(
      query == "X-Amz-Algorithm=AWS4-HMAC-SHA256"
        + "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        + "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        + "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404")
  }

  /// botocore is AWS's own client.
  @Test(arguments: ["http://127.0.0.1:9000", "https://s3.example", "https://storage.example:8443/tenant/one"])
  func `URLs are those that botocore makes`(endpoint: String) async throws {
    let id = try #require(AttachmentID(4_611_686_018_427_387_905))
    let store = S3Store(
      endpoint: endpoint, bucket: "blobs.of-us", region: "eu-west-1",
      keys: { ("an+access/key", Secret("a secret=/+")) }, client: .shared, clock: WallClock { Self.published })
    for (use, method, headers) in [
      (BlobUse.upload, "PUT", ["content-type:application/octet-stream"]), (.download, "GET", []),
    ] {
      let url = store.url(for: use, of: id, base: "http://unused", now: Self.published)
      let bare = String(url.prefix { $0 != "?" })
      #expect(bare == "\(endpoint)/blobs.of-us/4611686018427387905")
      let expected = try await Self.presigned(
        [method, bare, "eu-west-1", "an+access/key", "a secret=/+", "1369353600", "3600"] + headers)
      #expect(url == expected)
    }
  }

  private static func presigned(_ arguments: [String]) async throws -> String {
    try await withTemporaryFolder { folder in
      let (program, output) = (folder + "/presign.py", folder + "/output")
      try presign.write(toFile: program, atomically: true, encoding: .utf8)
      let child = try await ChildProcess.start(
        .init(
          command: [try PythonTools.path(of: "python"), program] + arguments,
          environment: ProcessInfo.processInfo.environment, standardOutput: output, standardError: output))
      let exit = await child.killed(after: .seconds(60))
      let text = try String(contentsOfFile: output, encoding: .utf8)
      guard exit == .code(0) else { throw TestFailure("python: \(text)") }
      return text.trimmingCharacters(in: .newlines)
    }
  }

  private static let presign = """
    import sys, datetime
    from unittest import mock
    from botocore import auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    method, url, region, access, secret, moment, seconds, *headers = sys.argv[1:]
    moment = datetime.datetime.fromtimestamp(int(moment), datetime.timezone.utc)
    request = AWSRequest(method=method, url=url, headers=dict(header.split(":", 1) for header in headers))
    with mock.patch.object(auth, "get_current_datetime", return_value=moment):
        auth.S3SigV4QueryAuth(Credentials(access, secret), "s3", region, expires=int(seconds)).add_auth(request)
    print(request.url)
    """
}

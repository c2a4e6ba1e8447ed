import Foundation

/// libfaketime, which gives a process another date.
package enum WrongClock {
  package static func library() throws -> String {
    let folders = ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"]
    let files = folders.map { $0 + "/libfaketime.so.1" }
    guard let file = files.first(where: FileManager.default.fileExists) else {
      throw TestFailure("libfaketime is not installed: run scripts/install-dependencies.sh")
    }
    return file
  }
}

// Tells the executable which versions of its packages it is built from.

import Foundation
import PackagePlugin

/// Has a script write `Package.resolved` down as Swift, whenever that has changed: with plain `swift build` too, and in
/// the build folder, where no commit sees it.
@main struct ResolvedPackages: BuildToolPlugin {
  func createBuildCommands(context: PluginContext, target: any Target) async throws -> [Command] {
    let root = context.package.directoryURL
    let script = root.appending(path: "scripts/print-packages.sh")
    let resolved = root.appending(path: "Package.resolved")
    let output = context.pluginWorkDirectoryURL.appending(path: "ResolvedPackages.swift")
    // SwiftPM writes it before it builds, unless it was told not to: then there is nothing to list.
    let isThere = FileManager.default.fileExists(atPath: resolved.path)
    return [
      .buildCommand(
        displayName: "Listing the resolved packages", executable: URL(filePath: "/bin/sh"),
        arguments: [script.path, resolved.path, output.path], inputFiles: [script] + (isThere ? [resolved] : []),
        outputFiles: [output])
    ]
  }
}

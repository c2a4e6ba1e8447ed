// swift-tools-version:6.2
import PackageDescription

// One place for the compiler's strictness: every target of ours is built with it (docs/architecture.md, "Module map").
let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableExperimentalFeature("Lifetimes"),
  .treatAllWarnings(as: .error),
]

// Tests of the campaign's checker start relays with a fault planted: a debug build alone has them (docs/reliability.md).
let plantable = strict + [.define("PLANTED_FAULTS", .when(configuration: .debug))]

// Commands, and the suite of `relay conformance`, run once in a while: small is better than fast.
let seldom = SwiftSetting.unsafeFlags(["-Osize"], .when(configuration: .release))

// For production. The linker of LLVM packs the addresses that the loader fills in, 4 MB of them (Makefile, RELEASE).
let linking: [LinkerSetting] = [.unsafeFlags(["-use-ld=lld"], .when(platforms: [.linux], configuration: .release))]

let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let hummingbirdCore = Target.Dependency.product(name: "HummingbirdCore", package: "hummingbird")
let hummingbirdHTTP2 = Target.Dependency.product(name: "HummingbirdHTTP2", package: "hummingbird")
let mustache = Target.Dependency.product(name: "Mustache", package: "swift-mustache")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioWebSocket = Target.Dependency.product(name: "NIOWebSocket", package: "swift-nio")
let nioTLS = Target.Dependency.product(name: "NIOTLS", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let nioHTTP2 = Target.Dependency.product(name: "NIOHTTP2", package: "swift-nio-http2")
let nioHPACK = Target.Dependency.product(name: "NIOHPACK", package: "swift-nio-http2")
let nioExtras = Target.Dependency.product(name: "NIOExtras", package: "swift-nio-extras")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let nioHTTPTypes = Target.Dependency.product(name: "NIOHTTPTypes", package: "swift-nio-extras")
let nioHTTPTypesHTTP1 = Target.Dependency.product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras")
let asyncHTTPClient = Target.Dependency.product(name: "AsyncHTTPClient", package: "async-http-client")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let x509 = Target.Dependency.product(name: "X509", package: "swift-certificates")
let asn1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let coreMetrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let lifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let ordered = Target.Dependency.product(name: "OrderedCollections", package: "swift-collections")
let configuration = Target.Dependency.product(name: "Configuration", package: "swift-configuration")
let yams = Target.Dependency.product(name: "Yams", package: "Yams")
let atomics = Target.Dependency.product(name: "Atomics", package: "swift-atomics")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let protobuf = Target.Dependency.product(name: "SwiftProtobuf", package: "swift-protobuf")
let jwtKit = Target.Dependency.product(name: "JWTKit", package: "jwt-kit")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")

let package = Package(
  name: "relay",
  platforms: [.macOS(.v26)],
  products: [
    .executable(name: "relay", targets: ["RelayCommand"]),
    .executable(name: "relay-bench", targets: ["RelayBenchmark"]),
    .executable(name: "relay-campaign", targets: ["RelayCampaign"]),
    .executable(name: "relay-model", targets: ["RelayModel"]),
    .library(name: "RelayClient", targets: ["RelayClient"]),
  ],
  dependencies: [
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    .package(url: "https://github.com/hummingbird-project/swift-mustache", from: "2.1.1"),
    .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
    .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
    .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
    .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-atomics", from: "1.3.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: ["YAML"]),
    // What swift-configuration reads YAML with, for trees that it would flatten.
    .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
    .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/vapor/jwt-kit", from: "5.0.0"),
  ],
  targets: [
    // C libraries of the system, each a module map and a header.
    .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev", "libssl-dev"])]),
    .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
    .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
    .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
    // One compiler's word that Swift lacks.
    .systemLibrary(name: "CPrefetch"),
    // What the benchmark holds the table of the directory against.
    .target(name: "CTableProbe", path: "Tools/CTableProbe"),

    // Versions of packages, for `relay --version --packages`.
    .plugin(name: "ResolvedPackages", capability: .buildTool()),

    // Batches, loops, leases, waits: what work is run by, whatever it is.
    .target(name: "RelayWork", dependencies: [nioPosix, deque], swiftSettings: strict),

    // The pure core, and what the HTTP edges share.
    .target(name: "RelayCore", dependencies: ["RelayWork", ordered], swiftSettings: strict),
    // The oblivious pseudorandom function of look-ups, both of its sides.
    .target(name: "VOPRF", dependencies: ["CSodium"], swiftSettings: strict),
    // The table of all metrics.
    .target(name: "RelayMetrics", dependencies: [coreMetrics], swiftSettings: strict),
    .target(
      name: "RelayHTTP",
      dependencies: [
        "RelayCore", "RelayWork", hummingbird, hummingbirdCore, hummingbirdHTTP2, httpTypes, nioCore, nioPosix,
        nioHTTP1, nioTLS,
        nioSSL, nioHTTP2, nioWebSocket, nioHTTPTypes, nioHTTPTypesHTTP1, logging, "RelayMetrics", metrics, lifecycle,
        deque,
      ],
      swiftSettings: strict),

    // Protobuf messages of the wire, generated: `make wire-messages`.
    .target(
      name: "WireMessages", dependencies: [protobuf],
      exclude: ["batch.proto", "keys.proto", "push-signal.proto", "websocket.proto"],
      swiftSettings: strict),

    // Features: they meet in RelayCore's contracts and never import each other.
    .target(
      name: "Relay",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", "WireMessages", protobuf, hummingbird, httpTypes, nioCore, nioHTTP1,
        crypto,
        cryptoExtras, logging, "RelayMetrics", metrics, lifecycle, deque, asyncHTTPClient,
      ],
      swiftSettings: strict),
    .target(
      name: "Attachments",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", hummingbird, hummingbirdCore, httpTypes, nioCore, nioPosix, nioHTTP1,
        crypto, logging,
        "RelayMetrics", metrics, lifecycle, asyncHTTPClient,
      ],
      swiftSettings: strict),
    .target(
      name: "Federation",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", "WireMessages", protobuf, deque, ordered, hummingbird, hummingbirdCore,
        hummingbirdHTTP2, httpTypes, nioCore, nioPosix, nioTLS,
        nioSSL, nioHTTP2, nioHTTP1, asyncHTTPClient, crypto, x509, asn1, logging, "RelayMetrics", metrics, lifecycle,
      ],
      swiftSettings: strict),
    .target(
      name: "Directory",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", "VOPRF", "CPrefetch", atomics, hummingbird, nioCore, nioPosix, nioExtras,
        nioHTTP1, nioSSL, crypto, logging, "RelayMetrics", metrics, lifecycle,
      ],
      swiftSettings: strict),
    .target(
      name: "Storage",
      dependencies: [
        "RelayCore", "RelayWork", "CLibPQ", "CHiredis", "COpenSSL", grdb, crypto, cryptoExtras, logging, "RelayMetrics",
        metrics,
        lifecycle,
        deque, heap,
      ],
      swiftSettings: strict),
    .target(
      name: "Push",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", jwtKit, nioCore, nioPosix, nioHTTP1, nioHTTP2, nioHPACK, nioSSL, nioTLS,
        crypto, cryptoExtras, x509, asn1,
        logging, "RelayMetrics", metrics, lifecycle, deque,
      ],
      swiftSettings: strict),
    .target(
      name: "PushGateway",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", "Push", hummingbird, hummingbirdCore, httpTypes, nioCore, crypto,
        logging,
        "RelayMetrics", metrics,
        lifecycle, heap, ordered,
      ],
      swiftSettings: strict),
    .target(
      name: "Waking",
      dependencies: ["RelayCore", "RelayWork", "RelayHTTP", "Push", "RelayMetrics", logging, metrics, lifecycle],
      swiftSettings: strict),

    .target(
      name: "DeviceNotifications",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", "Push", "CXML2", hummingbird, hummingbirdCore, hummingbirdHTTP2,
        httpTypes, nioCore,
        nioHTTP1, nioSSL, asyncHTTPClient, logging, "RelayMetrics", metrics, lifecycle,
      ],
      swiftSettings: strict),

    // What `relay` is made of.
    .target(name: "ChildProcesses", dependencies: ["RelayWork", nioCore, nioPosix], swiftSettings: strict),
    .target(
      name: "RelayConfiguration", dependencies: ["RelayCore", configuration, yams, ordered], swiftSettings: strict),
    .target(
      name: "Operations",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", hummingbird, hummingbirdCore, mustache, httpTypes, nioCore, logging,
        "RelayMetrics",
        metrics,
        coreMetrics, lifecycle,
      ],
      swiftSettings: strict),
    .target(
      name: "RelayClient",
      dependencies: [
        "RelayCore", "RelayWork", "VOPRF", "WireMessages", protobuf, asyncHTTPClient, nioCore, nioPosix, nioHTTP1,
        nioWebSocket, nioSSL, crypto, cryptoExtras,
      ],
      swiftSettings: strict),
    .target(
      name: "Conformance",
      dependencies: [
        "RelayCore", "RelayClient", "WireMessages", protobuf, asyncHTTPClient, nioCore, nioHTTP1, nioSSL, crypto,
      ],
      path: "Tools/Conformance", swiftSettings: strict + [seldom]),
    .executableTarget(
      name: "RelayCommand",
      dependencies: [
        "RelayCore", "RelayWork", "RelayHTTP", "Relay", "Attachments", "Federation", "Directory", "Push", "PushGateway",
        "Waking",
        "DeviceNotifications", "Storage", "Conformance", "RelayConfiguration", "Operations", "VOPRF",
        "RelayClient", "ChildProcesses", argumentParser, hummingbird, logging, "RelayMetrics", metrics, coreMetrics,
        lifecycle,
        unixSignals, crypto,
        nioCore, nioPosix, nioHTTP1, nioSSL, asyncHTTPClient,
      ],
      swiftSettings: plantable + [seldom], linkerSettings: linking, plugins: ["ResolvedPackages"]),
    .executableTarget(
      name: "RelayBenchmark",
      dependencies: [
        "RelayCore", "RelayClient", "WireMessages", protobuf, "ChildProcesses", "Directory", "CTableProbe", "CLibPQ",
        "CHiredis", "COpenSSL", nioCore, nioPosix, nioHTTP1, nioHTTP2, nioHPACK, nioWebSocket, nioSSL, crypto,
        cryptoExtras, argumentParser, deque,
      ],
      path: "Tools/RelayBenchmark", swiftSettings: strict, linkerSettings: linking),
    // Its simulations drive the relay's own rules of retrying.
    .executableTarget(
      name: "RelayModel",
      dependencies: ["RelayCore", "RelayClient", "Federation", "Push", "Waking", argumentParser, heap],
      path: "Tools/RelayModel", exclude: ["constants.json", "points.json"], swiftSettings: strict,
      linkerSettings: linking),

    // Tests.
    // What a suite needs, by its tag.
    .target(name: "TestTags", path: "Tests/TestTags", swiftSettings: strict),
    .target(
      name: "TestSupport",
      dependencies: [
        "RelayCore", "RelayClient", "Storage", "Federation", "WireMessages", protobuf, "ChildProcesses", x509, asn1,
        crypto, cryptoExtras, nioCore, nioPosix, nioHTTP1, nioHTTP2, nioWebSocket, nioSSL, grdb, asyncHTTPClient,
        jwtKit, "CLibPQ",
      ],
      path: "Tests/Support", swiftSettings: strict),
    // The history of a campaign, and the rules that judge it: they know nothing of the relay.
    .target(name: "CampaignModel", path: "Tests/CampaignModel", swiftSettings: strict),
    .executableTarget(
      name: "RelayCampaign",
      dependencies: [
        "CampaignModel", "RelayClient", "RelayCore", "ChildProcesses", "TestSupport", argumentParser, unixSignals,
      ],
      path: "Tests/Campaign", swiftSettings: strict, linkerSettings: linking),
    // How the sources are laid out.
    .testTarget(name: "StructureTests", dependencies: ["TestTags"], swiftSettings: strict),
    .testTarget(
      name: "RelayModelTests",
      dependencies: ["RelayModel", "RelayCore", "Storage", "TestTags"],
      swiftSettings: strict),
    .testTarget(name: "RelayWorkTests", dependencies: ["RelayWork", "TestSupport", "TestTags"], swiftSettings: strict),
    .testTarget(name: "VOPRFTests", dependencies: ["VOPRF", "TestTags"], swiftSettings: strict),
    .testTarget(name: "CampaignModelTests", dependencies: ["TestTags", "CampaignModel"], swiftSettings: strict),
    .testTarget(
      name: "RelayCoreTests", dependencies: ["TestTags", "RelayCore"], resources: [.copy("Vectors")],
      swiftSettings: strict),
    .testTarget(
      name: "RelayConfigurationTests", dependencies: ["TestTags", "RelayConfiguration", "RelayCore", ordered],
      exclude: ["Bad"], swiftSettings: strict),
    .testTarget(
      name: "OperationsTests",
      dependencies: [
        "TestTags", "Operations", "RelayMetrics", "RelayCore", "Relay", "Federation", "Push", mustache, asyncHTTPClient,
        coreMetrics, metrics, logging, lifecycle, nioCore, nioPosix, nioHTTP1,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "StorageTests",
      dependencies: ["Storage", "RelayCore", "TestSupport", "TestTags", crypto, x509, grdb, logging],
      swiftSettings: strict),
    .testTarget(
      name: "FederationTests",
      dependencies: [
        "Federation", "RelayCore", "RelayHTTP", "RelayWork", "Storage", "TestSupport", "TestTags", "WireMessages",
        protobuf, x509, asn1, crypto,
        nioCore, nioPosix, nioHTTP1, nioSSL, grdb, asyncHTTPClient, logging, lifecycle,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "RelayTests",
      dependencies: [
        "Relay", "RelayCore", "RelayHTTP", "RelayClient", "WireMessages", protobuf, "Storage", "ChildProcesses",
        "VOPRF", "TestSupport", "TestTags", crypto, cryptoExtras, nioCore, nioPosix, nioHTTP1, nioSSL, nioWebSocket,
        httpTypes,
        hummingbird,
        hummingbirdCore, hummingbirdHTTP2, logging, lifecycle, asyncHTTPClient, nioEmbedded,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "DirectoryTests",
      dependencies: [
        "Directory", "RelayCore", "RelayHTTP", "RelayWork", "Storage", "VOPRF", "TestSupport", "TestTags", nioCore,
        nioSSL, crypto, logging, lifecycle,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "AttachmentsTests",
      dependencies: [
        "Attachments", "RelayCore", "RelayHTTP", "RelayClient", "Storage", "ChildProcesses", "TestSupport", "TestTags",
        crypto,
        cryptoExtras, nioCore, nioHTTP1, nioSSL, hummingbird, logging, lifecycle, asyncHTTPClient,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PushTests",
      dependencies: [
        "Push", "RelayCore", "RelayHTTP", "RelayWork", "TestSupport", "TestTags", crypto, cryptoExtras, x509, asn1,
        nioCore, nioPosix, nioEmbedded, nioHTTP1, nioHTTP2, nioSSL, asyncHTTPClient, jwtKit, logging,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "PushGatewayTests",
      dependencies: [
        "PushGateway", "Push", "RelayCore", "RelayHTTP", "Storage", "ChildProcesses", "TestSupport", "TestTags", crypto,
        hummingbird, nioCore, nioHTTP1, asyncHTTPClient, logging, lifecycle, ordered,
      ],
      resources: [.copy("Vectors")], swiftSettings: strict),
    .testTarget(
      name: "WakingTests",
      dependencies: [
        "Waking", "Push", "RelayCore", "RelayWork", "RelayClient", "Storage", "ChildProcesses", "TestSupport",
        "TestTags", crypto, nioCore, logging, lifecycle,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "DeviceNotificationsTests",
      dependencies: [
        "DeviceNotifications", "Push", "Relay", "RelayCore", "RelayHTTP", "Storage", "TestSupport", "TestTags",
        hummingbird,
        nioCore, nioHTTP1, nioPosix, asyncHTTPClient, grdb, logging, lifecycle,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "AdversaryTests",
      dependencies: [
        "Federation", "RelayClient", "RelayCore", "RelayHTTP", "Storage", "WireMessages", "ChildProcesses",
        "TestSupport", "TestTags", protobuf, x509, asn1, crypto, cryptoExtras, grdb, nioCore, nioPosix, nioHTTP1,
        nioSSL,
        asyncHTTPClient, logging,
      ],
      swiftSettings: strict),
    .testTarget(
      name: "RealClients", dependencies: ["RelayClient", "ChildProcesses", "TestSupport", "TestTags"],
      swiftSettings: strict),
    // What `make fuzz-decoders` runs. Here it is only compiled: each build sees a change of what it calls.
    .testTarget(
      name: "Fuzz",
      dependencies: [
        "RelayCore", "RelayHTTP", "RelayClient", "RelayConfiguration", "Relay", "Federation", "Directory", "Storage",
        "Push", "PushGateway", "DeviceNotifications", "WireMessages", "VOPRF", "CHiredis", "CLibPQ", ordered, httpTypes,
        nioCore, nioHTTP1, nioWebSocket, asn1, x509, protobuf,
      ],
      exclude: ["Corpora", "CoverageRanges.c"], swiftSettings: strict),
    .testTarget(
      name: "ClusterTests",
      dependencies: [
        "CampaignModel", "RelayCampaign", "RelayClient", "RelayCore", "RelayMetrics", "ChildProcesses", "TestSupport",
        "TestTags", crypto, nioCore, nioPosix, asyncHTTPClient,
      ],
      swiftSettings: strict),
  ]
)

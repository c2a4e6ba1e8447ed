#!/usr/bin/env python3
"""Builds the fuzzers of Tests/Fuzz beside a finished debug build: scripts/build-fuzzer.py BUILD-FOLDER OUTPUT-FOLDER

What is fuzzed is compiled anew, optimised, with the address sanitizer and libFuzzer's coverage. All else, such as NIO
and BoringSSL, is taken from the debug build as it is: so a clean machine needs minutes less than for a build of
everything, and the coverage is that of the decoders. How each module is compiled is read from the manifest that SwiftPM
made for the debug build. Only what has changed is built again.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

# Ours, and the packages that take bytes from outside apart.
MODULES = [
    "SwiftASN1", "X509", "SwiftProtobuf", "Yams",
    "RelayWork", "RelayCore", "VOPRF", "RelayHTTP", "WireMessages", "Relay", "Federation", "Directory", "Storage", "Push",
    "PushGateway", "DeviceNotifications", "RelayConfiguration", "RelayClient",
]
SANITIZE = ["-sanitize=fuzzer,address"]
COMPILED = ["-O", "-whole-module-optimization", "-gline-tables-only", "-suppress-warnings", "-c", *SANITIZE]
# Options of two words or more.
PAIRS = {
    "-Xcc", "-Xfrontend", "-I", "-swift-version", "-enable-upcoming-feature", "-enable-experimental-feature", "-target",
    "-module-cache-path", "-package-name", "-user-module-version",
}
# Options of the debug build that ours take the place of: with a value, and without.
DROPPED_PAIRS = {"-emit-module-path", "-output-file-map", "-index-store-path", "-emit-objc-header-path", "-module-name",
                 "-num-threads"}
DROPPED = {
    "-emit-dependencies", "-emit-module", "-incremental", "-c", "-enable-batch-mode", "-serialize-diagnostics",
    "-Onone", "-parseable-output", "-emit-objc-header", "-DDEBUG", "-warnings-as-errors", "-enable-testing", "-g", "-gnone",
}


class Manifest:
    """The commands of a debug build."""

    def __init__(self, build):
        self.text = (build / "debug.yaml").read_text()

    def command(self, end, key):
        """The list behind `key` of the one command whose name ends with `end`."""
        found = re.search(r'^  "C\.' + re.escape(end) + r'":\n((?:    .*\n)+)', self.text, re.M)
        if not found:
            sys.exit(f"build-fuzzer: the debug build does not know how to make {end}: build it first")
        line = re.search(rf"^    {key}: (.*)$", found[1], re.M)
        return json.loads(line[1])


class Module:
    def __init__(self, name, manifest, triple, output):
        self.name = name
        arguments = manifest.command(f"{name}-{triple}-debug.module", "args")
        inputs = manifest.command(f"{name}-{triple}-debug.module", "inputs")
        self.sources = [path for path in inputs if path.endswith(".swift")]
        used = {pathlib.Path(path).stem for path in inputs if path.endswith(".swiftmodule")}
        self.needs = [other for other in MODULES if other in used]
        self.compiler = arguments[0]
        self.options = kept(arguments[1:])
        self.object = output / f"{name}.o"
        self.interface = output / "Modules" / f"{name}.swiftmodule"

    def command(self, output):
        return [
            self.compiler, "-module-name", self.name, *COMPILED, "-enable-testing", "-emit-module", "-emit-module-path",
            str(self.interface), "-I", str(output / "Modules"), *self.options, *self.sources, "-o", str(self.object),
        ]


def kept(arguments):
    options, rest = [], iter(arguments)
    for argument in rest:
        if argument in ("-Xcc", "-Xfrontend"):
            options += [argument, next(rest)]
        elif argument in DROPPED_PAIRS:
            next(rest)
        elif argument not in DROPPED and not argument.startswith(("@", "-j")):
            options.append(argument)
    return options


def made(command, product, sources):
    """Runs `command`, unless `product` is younger than its sources and was made by the same command."""
    note = product.with_name(product.name + ".command")
    text = "\n".join(command)
    if product.exists() and note.exists() and note.read_text() == text:
        since = product.stat().st_mtime
        if all(pathlib.Path(source).stat().st_mtime <= since for source in sources):
            return
    note.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"build-fuzzer: {product.name} was not built")
    note.write_text(text)
    print(f"  built {product.name}", flush=True)


def build(modules, output):
    """In the order of their needs, two at a time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        begun = {}

        def make(module):
            for need in module.needs:
                begun[need].result()
            needs = [modules[need].interface for need in module.needs]
            made(module.command(output), module.object, module.sources + needs)

        for module in in_order(modules):
            begun[module.name] = pool.submit(make, module)
        for future in begun.values():
            future.result()


def in_order(modules):
    done = []
    while len(done) < len(modules):
        done += [m for m in modules.values() if m not in done and all(modules[need] in done for need in m.needs)]
    return done


def main():
    build_folder, output = (pathlib.Path(path).absolute() for path in sys.argv[1:3])
    # Links of paths would make other paths of the same files.
    products = (build_folder / "debug").resolve()
    (output / "Modules").mkdir(parents=True, exist_ok=True)
    manifest, triple = Manifest(build_folder), products.parent.name
    modules = {name: Module(name, manifest, triple, output) for name in MODULES}
    build(modules, output)

    program, harness = output / "fuzz-decoders", output / "Fuzz.o"
    sources = sorted((pathlib.Path(__file__).parent.parent / "Tests/Fuzz").glob("*.swift"))
    objects = [str(module.object) for module in modules.values()]
    options = [option for module in modules.values() for option in module.options]
    command = [
        modules["RelayCore"].compiler, "-module-name", "Fuzz", "-parse-as-library", *COMPILED, "-I",
        str(output / "Modules"), *once(options), *map(str, sources), "-o", str(harness),
    ]
    made(command, harness, [*sources, *objects])
    ranges = output / "CoverageRanges.o"
    source = pathlib.Path(__file__).parent.parent / "Tests/Fuzz/CoverageRanges.c"
    compiler = str(pathlib.Path(command[0]).with_name("clang"))
    made([compiler, "-O2", "-Wall", "-Werror", "-c", str(source), "-o", str(ranges)], ranges, [source])
    # The counters lie in the order of the objects.
    write_counters(output / "counters.json", {"Fuzz": harness} | {name: modules[name].object for name in modules})
    link(program, [str(harness), *objects, str(ranges)], manifest, products, triple)


def write_counters(path, objects):
    """Of each module the first of its counters of coverage, and the end."""
    places, end = {}, 0
    for name, compiled in objects.items():
        first, end = end, end + counters(compiled)
        places[name] = [first, end]
    path.write_text(json.dumps(places))


def counters(compiled):
    """A byte each, in sections of one name."""
    said = subprocess.run(["readelf", "--sections", "--wide", compiled], capture_output=True, text=True, check=True)
    sizes = re.findall(r"\] __sancov_cntrs\s+\w+\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) ", said.stdout)
    return sum(int(size, 16) for size in sizes)


def once(options):
    """Without what is said twice; pairs stay together."""
    seen, result, rest = set(), [], iter(options)
    for option in rest:
        words = [option]
        if option in PAIRS:
            words.append(next(rest))
            if words == ["-Xcc", "-I"]:
                words += [next(rest), next(rest)]
        if tuple(words) not in seen:
            seen.add(tuple(words))
            result += words
    return result


def link(program, objects, manifest, products, triple):
    """As `relay` is linked, without what was built anew and without relay's own `main`."""
    ours = tuple(f"/{name}.build/" for name in [*MODULES, "RelayCommand"])
    listed = (products / "relay.product/Objects.LinkFileList").read_text().splitlines()
    files = program.parent / "Objects.LinkFileList"
    files.write_text("".join(path + "\n" for path in listed if not any(part in path for part in ours)))
    arguments = manifest.command(f"relay-{triple}-debug.exe", "args")
    libraries = [word for word in arguments[1:] if re.match("-l|-L.", word)]
    command = [
        arguments[0], "-emit-executable", *SANITIZE, "-o", str(program), *objects, f"@{files}", *libraries, "-Xlinker",
        "--gc-sections", *(
            word for name in ("__sanitizer_cov_8bit_counters_init", "__sanitizer_cov_pcs_init")
            for word in ("-Xlinker", f"--wrap={name}")),
    ]
    made(command, program, objects)


if __name__ == "__main__":
    main()

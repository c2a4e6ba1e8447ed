#!/usr/bin/env python3
"""Runs the fuzzers that scripts/build-fuzzer.py has built, and says at the end what each did (docs/fuzzing.md).

Each begins with its corpus in Tests/Fuzz/Corpora, and keeps what it finds on the way in the output folder, from where
the next run goes on. Ends with 0 only if no decoder crashed, hung, took too much memory or broke a promise.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPORA = ROOT / "Tests/Fuzz/Corpora"
# Of one input: seconds, and memory. What decoders may take is far below it.
LIMITS = ["-timeout=10", "-rss_limit_mb=1500", "-malloc_limit_mb=200"]
# Bytes. Where depth counts more than length, short inputs come to the same edges in a fraction of the time.
LENGTHS = {"yaml": 512, "websocket": 512, "http": 768, "invitations": 1024, "snapshot": 1024}
LENGTH = 4096
# Modules whose coverage counts beside those that the decoder's file in Tests/Fuzz imports.
COVERED = {"yaml": ["Yams"]}
ASAN = "detect_leaks=0:allocator_may_return_null=1"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the fuzzers were built")
    parser.add_argument("--seconds", type=int, default=10, help="for each decoder (10)")
    parser.add_argument("--runs", type=int, default=-1, help="end after so many executions, if that is sooner")
    parser.add_argument("--seed", type=int, default=0, help="of what is tried; another one each time without it")
    parser.add_argument("--only", default="", help="names of decoders, with commas between them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="decoders at a time (one for each core)")
    parser.add_argument("--input", type=pathlib.Path, help="run this one input only, such as one that crashed")
    parser.add_argument("--keep", action="store_true", help="write what was found into the corpora, minimised")
    return parser.parse_args()


class Fuzzer:
    def __init__(self, name, folder):
        self.name = name
        self.program = folder / "fuzz-decoders"
        self.found = folder / "corpora" / name
        self.seeds = folder / "seeds" / name
        self.failures = folder / "failures"
        self.log = folder / "logs" / f"{name}.txt"
        self.words = folder / "words.txt"
        self.counters = covered(name, folder)
        self.limits = [f"-max_len={LENGTHS.get(name, LENGTH)}", *LIMITS]
        for path in (self.found, self.failures, self.log.parent):
            path.mkdir(parents=True, exist_ok=True)
        unpack(name, self.seeds)

    def call(self, *options):
        environment = os.environ | {
            "RELAY_FUZZ_DECODER": self.name,
            "RELAY_FUZZ_COUNTERS": self.counters,
            "SWIFT_BACKTRACE": "enable=no",
            # A set in another order each time would make a seed try something else. Addresses still do, a little.
            "SWIFT_DETERMINISTIC_HASHING": "1",
            "ASAN_OPTIONS": ASAN,
        }
        with open(self.log, "wb") as log:
            return subprocess.run(
                [self.program, f"-artifact_prefix={self.failures}/{self.name}-", *options], env=environment, stdout=log,
                stderr=subprocess.STDOUT, check=False).returncode

    def fuzz(self, seconds, runs, seed):
        code = self.call(
            *self.limits, f"-max_total_time={seconds}", f"-runs={runs}", f"-seed={seed}", f"-dict={self.words}",
            "-print_final_stats=1", "-reload=0", str(self.found), str(self.seeds))
        return Outcome(self, code)

    def keep(self):
        """Writes as few inputs into the corpus as reach everything that was reached."""
        merged = self.found.with_name(self.name + ".merged")
        shutil.rmtree(merged, ignore_errors=True)
        merged.mkdir()
        if self.call(*self.limits, "-set_cover_merge=1", str(merged), str(self.seeds), str(self.found)) != 0:
            sys.exit(f"fuzz-decoders: {self.name} was not merged: see {self.log}")
        pack(merged, self.name)
        shutil.rmtree(merged)


class Outcome:
    def __init__(self, fuzzer, code):
        self.name, self.code = fuzzer.name, code
        text = fuzzer.log.read_text(errors="replace")
        self.executions = number(r"stat::number_of_executed_units:\s*(\d+)", text)
        states = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
        self.edges, self.features, self.inputs = map(int, states[-1]) if states else (0, 0, 0)
        artifact = re.search(r"Test unit written to (\S+)", text)
        self.artifact = artifact[1] if artifact else None
        self.log = fuzzer.log
        # The promise that was broken, or what the sanitizer says.
        said = re.search(r"^.*(?:Fatal error|ERROR: |Assertion).*$", text, re.M)
        self.reason = said[0].strip()[:300] if said else f"exit {code}"


def covered(name, folder):
    """The counters of coverage that libFuzzer looks at (Tests/Fuzz/CoverageRanges.c)."""
    function = re.search(rf'name: "{name}", run: (\w+)', (ROOT / "Tests/Fuzz/Fuzzer.swift").read_text())[1]
    texts = [path.read_text() for path in (ROOT / "Tests/Fuzz").glob("*.swift")]
    text = next(text for text in texts if f"func {function}(" in text)
    used = {"Fuzz", *re.findall(r"^(?:@testable )?import (\w+)", text, re.M), *COVERED.get(name, [])}
    places = json.loads((folder / "counters.json").read_text())
    return ",".join(f"{first}-{end}" for module, (first, end) in places.items() if module in used)


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def unpack(name, folder):
    """A corpus is a file with an input in each line: a JSON string whose characters are bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    corpus = CORPORA / f"{name}.jsonl"
    for index, line in enumerate(corpus.read_text().splitlines() if corpus.exists() else []):
        (folder / f"{index:05}").write_bytes(json.loads(line).encode("latin-1"))


def pack(folder, name):
    inputs = sorted((path.read_bytes() for path in folder.iterdir()), key=lambda data: (len(data), data))
    lines = [json.dumps(data.decode("latin-1")) for data in inputs]
    (CORPORA / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))


def write_words(path):
    """Names of properties, as the sources have them: what a fuzzer alone would take long to find."""
    words = set()
    for source in (ROOT / "Sources").rglob("*.swift"):
        words |= set(re.findall(r'matches\(key, "([A-Za-z_-]+)"\)', source.read_text()))
    words |= {"https://", "null", "true", "false", "relay1.", "<?xml", "<![CDATA[", "&lt;", "%00"}
    path.write_text("".join(f'"{word}"\n' for word in sorted(words)))


def report(outcomes):
    print(f"\n{'decoder':18}{'executions':>12}{'edges':>8}{'features':>10}{'inputs':>8}  result")
    for outcome in outcomes:
        result = "ok" if outcome.code == 0 else outcome.reason
        print(
            f"{outcome.name:18}{outcome.executions:>12,}{outcome.edges:>8,}{outcome.features:>10,}{outcome.inputs:>8,}"
            f"  {result}")
    failed = [outcome for outcome in outcomes if outcome.code != 0]
    print(f"{sum(outcome.executions for outcome in outcomes):,} executions, {len(failed)} of {len(outcomes)} failed.")
    for outcome in failed:
        print(f"\n{outcome.name}: {outcome.reason}\n  all that was said: {outcome.log}")
        if outcome.artifact:
            print(f"  the input: {base64.b64encode(pathlib.Path(outcome.artifact).read_bytes()).decode()}")
            print(f"  again: make fuzz-decoders ONLY={outcome.name} INPUT={outcome.artifact}")
    return 1 if failed else 0


def main():
    options = arguments()
    folder = options.folder.resolve()
    program = folder / "fuzz-decoders"
    if not program.exists():
        sys.exit(f"fuzz-decoders: {program} is missing: make fuzz-decoders builds it")
    known = subprocess.run(
        [program], env=os.environ | {"RELAY_FUZZ_DECODER": "list"}, capture_output=True, text=True, check=True
    ).stdout.split()
    names = [name for name in options.only.split(",") if name] or known
    if unknown := set(names) - set(known):
        sys.exit(f"fuzz-decoders: there is no decoder {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    if options.input and len(names) != 1:
        sys.exit("fuzz-decoders: an input is for one decoder: name it (ONLY=)")
    write_words(folder / "words.txt")
    fuzzers = [Fuzzer(name, folder) for name in names]
    if options.input:
        code = fuzzers[0].call(*fuzzers[0].limits, str(options.input))
        print(fuzzers[0].log.read_text(errors="replace"))
        return code
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, options.jobs)) as pool:
        outcomes = list(pool.map(lambda fuzzer: fuzzer.fuzz(options.seconds, options.runs, options.seed), fuzzers))
        code = report(outcomes)
        # What the fuzzer of files left: it cannot know when it ends.
        for left in pathlib.Path("/dev/shm").glob("relay-fuzz-*"):
            left.unlink(missing_ok=True)
        if options.keep and code == 0:
            list(pool.map(Fuzzer.keep, fuzzers))
    return code


if __name__ == "__main__":
    sys.exit(main())

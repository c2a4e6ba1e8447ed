#!/usr/bin/env python3
"""Compares what the present tree's relay costs with what another revision's does (docs/performance.md).

Builds BASE in a worktree below .build-compare, which stays there for the next time. Then one relay-bench, the present
one, measures both relays in turn: base, present, present, base. Prints for each figure the ratio present / base: the
median, the least and the greatest of the ratios of neighbours. A ratio whose range holds 1 shows no difference.

Usage: scripts/bench-compare.py BASE --bench PATH --relay PATH [--rounds N] [--json FILE] [-- OPTIONS of relay-bench]
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".build-compare"
# Some two minutes for each of the four runs.
SCENARIOS = [
    "messages-local", "messages-federated", "prekeys-local", "messages-local-paced", "deliveries", "deliveries-across",
    "deliveries-paced",
]
DEFAULTS = ["--only", ",".join(SCENARIOS), "--seconds", "6", "--single-rows"]
# Beyond it other work may have made the difference.
OTHERS_MAX = 0.05
FIGURES = [
    ("CPU s/1,000", lambda s: s["cpuSecondsPerThousand"]["total"]),
    ("per s", lambda s: s["perSecond"]),
    ("p50", lambda s: s["p50Millis"]),
    ("p99", lambda s: s["p99Millis"]),
    ("switches", lambda s: s["switchesPerRequest"]),
    ("statements", lambda s: s.get("statementsPerRequest")),
]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--bench", type=pathlib.Path, required=True, help="the executable relay-bench")
    parser.add_argument("--relay", type=pathlib.Path, required=True, help="the executable relay of the present tree")
    parser.add_argument("--rounds", type=int, default=1, help="of four runs each (1)")
    parser.add_argument("--json", type=pathlib.Path, help="write the ratios to this file too")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    found = parser.parse_args(words[:end])
    # Of relay-bench.
    found.options = words[end + 1 :]
    return found


def run(command, **options):
    if subprocess.run([str(word) for word in command], check=False, **options).returncode != 0:
        sys.exit(f"bench-compare: {command[0]} failed")


def build(base):
    """Builds `base` with its own Makefile. Returns its executable."""
    tree = FOLDER / "tree"
    git = ["git", "-C", ROOT]
    asked = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"],
        capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        sys.exit(f"bench-compare: {base} is no revision")
    commit = asked.stdout.strip()
    if (tree / ".git").exists():
        run(["git", "-C", tree, "checkout", "--quiet", "--detach", "--force", commit])
    else:
        FOLDER.mkdir(exist_ok=True)
        run([*git, "worktree", "prune"])
        run([*git, "worktree", "add", "--quiet", "--detach", tree, commit])
    # The same libraries on both sides.
    if (ROOT / "Package.resolved").exists():
        shutil.copy(ROOT / "Package.resolved", tree / "Package.resolved")
    # Standard output is for the table.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    run(["make", "-C", tree, "release"], stdout=sys.stderr, env=environment)
    found = sorted((tree / ".build-release").glob("*/release/relay"))
    if not found:
        sys.exit("bench-compare: the base was built, and there is no executable relay")
    return found[0], commit


def measure(bench, relay, options, file):
    run([bench, "--relay", relay, "--json", file, *options], stdout=subprocess.DEVNULL)
    return json.loads(file.read_text(encoding="utf-8"))


def scenarios(report):
    return {(s["scenario"], s.get("pacePerSecond")): s for s in report["scenarios"]}


def single_row(report):
    """Returns PostgreSQL's CPU seconds for 1,000 single durable rows: how fast the machine was in this run."""
    single = report.get("singleInsert")
    return single["cpuSecondsPerThousand"]["byProcess"]["PostgreSQL"] if single else None


def ratios(pairs):
    """Yields the name of each figure, and the ratios of its pairs."""
    rows = [single_row(base) and single_row(present) / single_row(base) for base, present in pairs]
    if all(rows):
        yield "single durable rows, CPU of PostgreSQL (no relay)", rows
    for key in scenarios(pairs[0][0]):
        both = [(scenarios(base).get(key), scenarios(present).get(key)) for base, present in pairs]
        if not all(base and present for base, present in both):
            continue
        title = key[0] + (f" at {key[1]}/s" if key[1] else "")
        for name, figure in FIGURES:
            # The rate of an open loop is the one that was asked for.
            if name == "per s" and key[1]:
                continue
            values = [(figure(base), figure(present)) for base, present in both]
            if all(base and present is not None for base, present in values):
                yield f"{title}: {name}", [present / base for base, present in values]


def main():
    options = arguments()
    if options.rounds < 1:
        sys.exit("bench-compare: --rounds is 1 or more")
    base, commit = build(options.base)
    reports = {"base": [], "present": []}
    pairs = []
    order = ["base", "present", "present", "base"] * options.rounds
    for index, side in enumerate(order):
        print(f"bench-compare: run {index + 1} of {len(order)}: {side}", file=sys.stderr, flush=True)
        relay = base if side == "base" else options.relay
        report = measure(options.bench, relay, options.options or DEFAULTS, FOLDER / f"{index + 1}-{side}.json")
        reports[side].append(report)
        if index % 2 == 1:
            pairs.append((reports["base"][-1], reports["present"][-1]))

    found = list(ratios(pairs))
    width = max([len(name) for name, _ in found], default=0)
    print(f"\npresent / base ({commit[:12]}), {len(pairs)} pairs")
    print(f"| {'figure':<{width}} | median |   range     | |")
    print(f"|{'-' * (width + 2)}|-------:|------------:|---|")
    for name, values in found:
        low, high = min(values), max(values)
        verdict = "" if low <= 1 <= high else "less" if high < 1 else "more"
        print(f"| {name:<{width}} | {statistics.median(values):6.2f} | {low:4.2f}–{high:5.2f} | {verdict} |")
    every = [s for side in reports.values() for report in side for s in report["scenarios"]]
    others = max([s["machineShareOfOthers"] for s in every], default=0)
    if others > OTHERS_MAX:
        print(f"Other processes took up to {others * 100:.0f} % of the machine: measure again on a quiet one.")
    if options.json:
        lines = [{"figure": name, "ratios": values} for name, values in found]
        options.json.write_text(json.dumps({"base": commit, "figures": lines}, indent=2) + "\n", encoding="utf-8")


main()

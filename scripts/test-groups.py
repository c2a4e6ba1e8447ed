#!/usr/bin/env python3
"""Prints the groups that scripts/run-tests.sh runs, from the tags of the test suites (Tests/TestTags/Groups.swift).

A line is one run of `swift test`: its name, how its tests run ("together", or "alone" one after the other), and an
extended regular expression over "Target.Suite/test()", with tabs between. Suites that need nothing run in parts of
about UNIT_MAX tests: all tests of a run begin at once, and with a thousand of them one waits minutes for its turn.
Those that compute for long are one run. The other groups run target by target, in parts of about TESTS_MAX tests;
targets with fewer than TESTS_FEW run together, since most of theirs wait. Each suite that measures time is a run.

Usage: scripts/test-groups.py [GROUP ...]
"""
import collections
import pathlib
import re
import sys

GROUPS = ("unit", "computing", "stores", "processes", "time")
UNIT_MAX = 300
TESTS_MAX = 200
TESTS_FEW = 45
TESTS = pathlib.Path(__file__).resolve().parent.parent / "Tests"
TYPE = re.compile(
    r"^(?:(?P<suite>@Suite)(?P<traits>\(.*?\))?\s+(?:final )?(?:struct|class|actor|enum)|extension) (?P<name>\w+)",
    re.MULTILINE | re.DOTALL,
)
TAG = re.compile(r"\.tags\([^)]*?\.(" + "|".join(GROUPS) + r")\b")


def suites():
    """Lists the target, the name, the group and the count of tests of each suite."""
    groups, tests = {}, collections.Counter()
    for path in sorted(TESTS.rglob("*.swift")):
        target = path.relative_to(TESTS).parts[0]
        text = path.read_text(encoding="utf-8")
        types = list(TYPE.finditer(text))
        # Tests of a suite stand in its type, or in an extension of it, which may be in another file.
        for part, following in zip(types, types[1:] + [None]):
            end = following.start() if following else len(text)
            tests[target, part["name"]] += text.count("\n  @Test", part.end(), end)
            if part["suite"]:
                tags = TAG.findall(part["traits"] or "")
                if len(tags) != 1:
                    sys.exit(f"test-groups: {path}: {part['name']} has {len(tags)} tags of groups, not one")
                groups[target, part["name"]] = tags[0]
    return [(target, name, group, tests[target, name]) for (target, name), group in sorted(groups.items())]


def parts(title, members, tests_max):
    """Divides suites into runs of about one size, with about `tests_max` tests each."""
    count = max(1, round(sum(tests for _, _, tests in members) / tests_max))
    # The largest first, each where there is least.
    found = [[0, []] for _ in range(count)]
    for target, name, tests in sorted(members, key=lambda suite: (-suite[2], suite[:2])):
        least = min(found, key=lambda part: part[0])
        least[0] += tests
        least[1].append((target, name))
    return [
        (title + (f" {number} of {count}" if count > 1 else ""), sorted(suites))
        for number, (_, suites) in enumerate(found, 1)
    ]


def runs(group, members):
    """Lists the runs of one group: the name of each, and its suites as (target, name)."""
    if group == "computing":
        return [(group, [(target, name) for target, name, _ in members])]
    if group == "unit":
        return parts(group, members, UNIT_MAX)
    if group == "time":
        return [(f"{group}, {target}.{name}", [(target, name)]) for target, name, _ in members]
    found = []
    count_of = collections.Counter()
    for target, _, tests in members:
        count_of[target] += tests
    small = sorted(target for target, tests in count_of.items() if tests < TESTS_FEW)
    if small:
        name = f"{group}, {' '.join(small)}"
        found.append((name, [(target, suite) for target, suite, _ in members if target in small]))
    for target in sorted(set(count_of) - set(small)):
        found += parts(f"{group}, {target}", [suite for suite in members if suite[0] == target], TESTS_MAX)
    return found


def expression(members):
    by_target = collections.defaultdict(list)
    for target, name in members:
        by_target[target].append(name)
    return "|".join(rf"^{target}\.({'|'.join(names)})/" for target, names in sorted(by_target.items()))


def main():
    wanted = sys.argv[1:] or GROUPS
    if unknown := set(wanted) - set(GROUPS):
        sys.exit(f"test-groups: no group {', '.join(sorted(unknown))}")
    everything = suites()
    for group in wanted:
        members = [(target, name, tests) for target, name, of, tests in everything if of == group]
        for name, part in runs(group, members):
            print(name, "alone" if group == "time" else "together", expression(part), sep="\t")


if __name__ == "__main__":
    main()

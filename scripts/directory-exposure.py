#!/usr/bin/env python3
"""What can be learnt from the directory by asking it, in the tables of docs/security.md.

    scripts/directory-exposure.py [--set KEY=VALUE]...

The figures follow from the defaults in docs/configuration.md, which it reads, or from what is set in their place, and from
the error of the budget's sketch. Prints Markdown. No dependencies.
"""

import argparse
import math
import pathlib
import re
import sys

# Of the contacts that the budget's sketch has not seen, it takes this share at most for some that it has
# (Sources/RelayCore/Directory/ContactBudget.swift): whoever asks learns so much more.
SKETCH_ERROR = 0.01

# Days that the first budget is for (Sources/RelayConfiguration/RelayConfiguration+Directory.swift).
FIRST_DAYS = 10

DAY = 86_400
YEAR = 365 * DAY


class Settings:
    def __init__(self, path, changes):
        text = path.read_text(encoding="utf-8")
        values = dict(re.findall(r"^\| `([a-z0-9.-]+)` \| [^|]* \| `([0-9.]+)` \|", text, re.M))
        for name, size, refill in re.findall(r"^\| `(limits\.[a-z-]+)` \| `([0-9.]+)` \| `([0-9.]+)` \|", text, re.M):
            values |= {f"{name}.size": size, f"{name}.per-minute": refill}
        values |= dict(changes)

        def value(key):
            if key not in values:
                sys.exit(f"directory-exposure: {path} has no default for {key}")
            return float(values[key])

        self.bucket = value("limits.contact-queries.size")
        self.refill = value("limits.contact-queries.per-minute") / 60
        self.first = value("directory.budget.first")
        self.first_days = FIRST_DAYS
        self.per_day = value("directory.budget.per-day")
        self.code_bucket = value("limits.code-address.size")
        self.code_refill = value("limits.code-address.per-minute") / 60

    def by_bucket(self, seconds):
        """Tokens that one account asks for in a time, where only the bucket is in the way."""
        return self.bucket + self.refill * seconds

    def by_budget(self, seconds):
        """The same, with the budget: the account's age is counted in whole days."""
        days = seconds // DAY - self.first_days
        allowed = self.first + (self.per_day * (days + 1) if days >= 0 else 0)
        return min(allowed / (1 - SKETCH_ERROR), self.by_bucket(seconds))

    def bucket_time(self, tokens):
        return max(0, tokens - self.bucket) / self.refill

    def budget_time(self, tokens):
        """The age at which one account has been allowed so many."""
        missing = tokens * (1 - SKETCH_ERROR) - self.first
        if missing <= 0:
            days = 0
        elif self.per_day == 0:
            return math.inf
        else:
            days = self.first_days + math.ceil(missing / self.per_day) - 1
        return max(days * DAY, self.bucket_time(tokens))

    def code_time(self, codes):
        """How long one client address takes to have so many codes sent."""
        return max(0, codes - self.code_bucket) / self.code_refill


def number(value):
    return f"{math.floor(value):,}"


def time(seconds):
    """To a tenth where it is short of ten."""
    if seconds == math.inf:
        return "never"
    for unit, name in ((YEAR, "years"), (DAY, "days"), (3600, "h"), (60, "min")):
        count = seconds / unit
        if count >= (1 if unit == 60 else 1.5):
            return f"{count:,.0f} {name}" if count >= 10 else f"{count:.1f} {name}".replace(".0 ", " ")
    return "less than a minute"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another value of a setting")
    changes = [change.partition("=")[::2] for change in parser.parse_args().set]
    settings = Settings(root / "docs" / "configuration.md", changes)

    print("Numbers that can be tried:\n")
    times = (("1 day", DAY), ("10 days", 10 * DAY), ("30 days", 30 * DAY), ("a year", YEAR))
    table(
        ["Accounts", "1 day, by the bucket alone"] + [f"{name}, with the budget" for name, _ in times],
        [
            [number(accounts), number(accounts * settings.by_bucket(DAY))]
            # Just before the time is over.
            + [number(accounts * settings.by_budget(seconds - 1)) for _, seconds in times]
            for accounts in (1, 10, 100, 1000, 10_000)
        ])

    print("\nTime to try all numbers of a range:\n")
    table(
        ["Numbers", "Accounts", "By the bucket alone", "With the budget"],
        [
            [number(space), number(accounts), time(settings.bucket_time(space / accounts)),
             time(settings.budget_time(space / accounts))]
            for space in (10**7, 10**8, 10**9)
            for accounts in (1, 100, 10_000)
        ])

    print("\nAccounts to try all numbers of a range within a time, each with a number of its own that gets a code:\n")
    rows = []
    for space in (10**7, 10**8, 10**9):
        for name, seconds in (("1 day", DAY), ("30 days", 30 * DAY)):
            accounts = math.ceil(space / settings.by_budget(seconds - 1))
            before = math.ceil(space / settings.by_bucket(seconds))
            rows.append(
                [number(space), name, number(before), number(accounts), time(settings.code_time(accounts)),
                 time(settings.code_time(math.ceil(accounts / 100)))])
    table(
        ["Numbers", "Within", "By the bucket alone", "With the budget", "Codes asked for from one address",
         "From 100 addresses"], rows)


if __name__ == "__main__":
    main()

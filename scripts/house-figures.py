#!/usr/bin/env python3
"""Prints the figures that say how well this repository is kept, one a line, with their goals.

Usage: scripts/house-figures.py [--names | --check] [ROOT]

With --names, the places behind a figure follow it. With --check, only the figures are printed whose goal is 0 and that
are more, with their places; the exit code is 1 then. The product is Sources without what is generated (*.pb.swift); the
prose is its comments, README.md, CONTRIBUTING.md, CHANGELOG.md and docs/**/*.md without docs/reference, which keeps
texts of others. It counts like this:

- A function is a func, an init, a deinit, a subscript or a computed property. Its lines are those between its braces,
  nested functions and comments among them. A text of several lines, such as a statement of SQL, is one line. A
  body that is one switch with a value for each case is a table, and no function.
- A configuration key is a field that RelayConfiguration+*.swift read. A section that is read in two places counts
  twice; a field that each limit has counts once.
- A sentence ends with a period, a question mark or an exclamation mark, and has three words or more. Code, tables and
  headings are none. A clause ("Where X holds, Y follows.") does not open a sentence as its subject.
"""

import argparse
import pathlib
import re
import statistics
import sys

sys.dont_write_bytecode = True  # Nothing is left beside the scripts.
from swift_text import without_texts  # noqa: E402

SMALL, LARGE, LONG, COLUMNS = 30, 400, 40, 120
OPENERS = ["What", "Who", "Whoever", "Of", "Where", "Those", "Whatever", "Whom"]


def main():
    options = argparse.ArgumentParser(description="Prints the figures of this repository.")
    options.add_argument("--names", action="store_true", help="the places behind each figure too")
    options.add_argument("--check", action="store_true", help="only what must be 0 and is not, and exit code 1 then")
    options.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent, metavar="ROOT")
    options = options.parse_args()
    root = pathlib.Path(options.root)
    product = Sources(root)
    prose = Prose(root, product)
    figures = product.figures() + prose.figures()
    if options.check:
        figures = [row for row in figures if row[2] == 0 and row[1] != 0]
    for name, figure, goal, places in figures:
        print(f"{name:<38} {figure:>8}" + (f"   (goal {goal})" if goal is not None else ""))
        for place in places if options.names or options.check else []:
            print(f"  {place}")
    if options.check and figures:
        sys.exit(1)


class Sources:
    """The product's sources: texts by their paths."""

    def __init__(self, root):
        paths = sorted(root.glob("Sources/**/*.swift"))
        self.texts = {
            str(path.relative_to(root)): path.read_text() for path in paths if not path.name.endswith(".pb.swift")
        }
        if not self.texts:
            sys.exit(f"house-figures: {root} has no Sources")
        self.codes = {path: without_texts(text)[0] for path, text in self.texts.items()}

    def figures(self):
        sizes = {path: text.count("\n") for path, text in self.texts.items()}
        small = [f"{path}: {size}" for path, size in sizes.items() if size < SMALL]
        large = [f"{path}: {size}" for path, size in sizes.items() if size > LARGE]
        long = [
            f"{path}:{line} {name}: {lines}"
            for path, code in self.codes.items()
            for name, line, lines in functions(code)
            if lines > LONG
        ]
        sleeps = [
            f"{path}:{line_of(code, match.start())}"
            for path, code in self.codes.items()
            if not path.startswith("Sources/RelayWork/")
            for match in re.finditer(r"\bTask\s*\.\s*sleep\b", code)
        ]
        return [
            ("lines", sum(sizes.values()), None, []),
            ("files", len(sizes), None, []),
            ("median of a file's lines", f"{statistics.median(sizes.values()):g}", None, []),
            (f"files under {SMALL} lines", len(small), 40, small),
            (f"files over {LARGE} lines", len(large), 0, large),
            (f"functions over {LONG} lines", len(long), 0, long),
            ("Task.sleep outside RelayWork", len(sleeps), 0, sleeps),
            ("configuration keys", self.keys(), None, []),
        ]

    def keys(self):
        """How many keys each initialiser of a section reads."""
        codes = [code for path, code in self.codes.items() if "/RelayConfiguration/" in path]
        types = re.compile(r"\b(?:struct|enum|extension)\s+(?P<name>[\w.]+)[^{}]*")
        count = 0
        for code in codes:
            sections = [(match["name"], match.end(), closing_of(code, match.end())) for match in types.finditer(code)]
            for name, _, start, end in bodies(code):
                reads = len(re.findall(r"\bkeys\.(?:value|optional|tree)\(", code[start:end]))
                if reads:
                    # The innermost type is the last that begins before.
                    type = [each for each, begin, close in sections if begin < start < close][-1].split(".")[-1]
                    shared = sum(len(re.findall(rf"\b{type}\(&keys, below:", other)) for other in codes)
                    count += reads * max(1, shared)
        return count


def functions(code):
    """The name, the line and the count of lines of each body."""
    for name, line, start, end in bodies(code):
        if not is_table(code[start:end]):
            yield name, line, max(0, re.sub(r"§\n+", "§\n", code[start:end]).count("\n") - 1)


def is_table(body):
    """Whether a body chooses between values, and does nothing else."""
    case = r"\s*(?:case [^:{}]*|default):\s*(?:§\d+§|[\w.]+)"
    return re.fullmatch(rf"\s*switch self \{{(?:{case})+\s*\}}\s*", body) is not None


# Neither a brace nor another declaration stands between a declaration and its body.
HEAD = re.compile(
    r"\b(?:func\s+(?P<func>`?\w+`?|[^\s\w(]+)|(?P<init>init|deinit|subscript)\b(?=[?!]?\s*[(<{])"
    r"|var\s+(?P<var>`?\w+`?)\s*:)"
)
ANOTHER = re.compile(
    r"\b(?:func|var|let|init|subscript|case|associatedtype|struct|class|enum|extension|protocol)\b|[=;@]"
)


def bodies(code):
    """The name of each function, its line, and where the text between its braces begins and ends."""
    for match in HEAD.finditer(code):
        before = code[: match.start()].rstrip()[-1:]
        if match["init"] and before in (".", "("):
            continue  # A call.
        opening = body_of(code, match.end())
        if opening is not None:
            name = match["func"] or match["init"] or match["var"]
            yield name, line_of(code, match.start()), opening + 1, closing_of(code, opening)


def body_of(code, position):
    """Where the brace of a declaration's body is; None for a requirement, a stored property or a call."""
    depth = 0
    while position < len(code):
        char = code[position]
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
            if depth < 0:
                return None
        elif depth == 0:
            if char == "{":
                return position
            if char == "}" or ANOTHER.match(code, position) and not re.match(r"\w", code[position - 1]):
                return None
        position += 1
    return None


def closing_of(code, opening):
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(code)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Prose:
    """The documents, and the comments of the product."""

    def __init__(self, root, product):
        names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        pages = [root / name for name in names if (root / name).exists()] + [
            page for page in sorted(root.glob("docs/**/*.md")) if not page.is_relative_to(root / "docs/reference")
        ]
        self.pages = {str(page.relative_to(root)): paragraphs(page.read_text()) for page in pages}
        self.comments = {path: comments(text) for path, text in product.texts.items()}

    def figures(self):
        words, count = 0, 0
        for sentence in (each for page in self.pages.values() for _, text in page for each in sentences(text)):
            words, count = words + len(sentence.split()), count + 1
        blocks = [(path, *block) for part in (self.pages, self.comments) for path in part for block in part[path]]
        opened = [
            f"{path}:{line} {sentence[:70]}"
            for path, line, text in blocks
            for sentence in sentences(text)
            if is_opened_badly(sentence)
        ]
        wide = [
            f"{path}:{line + offset}"
            for path, line, text in blocks
            for offset, one in enumerate(text.split("\n"))
            if len(one) > COLUMNS and not re.fullmatch(r"\s*(?:///?|[-*]|\d+\.)?\s*\S+", one)
        ]
        return [
            ("words a sentence in documents", f"{words / max(1, count):.1f}", None, []),
            (f"sentences opened with {', '.join(OPENERS[:2])}, …", len(opened), 0, opened),
            (f"lines of prose over {COLUMNS} columns", len(wide), 0, wide),
        ]


def paragraphs(page):
    """The paragraphs of a page with their lines, without blocks of code, tables, headings and marks."""
    vectors = r"<!-- vectors begin -->.*?<!-- vectors end -->"
    quoted = re.compile(rf"{vectors}|^```.*?^```|<!--.*?-->", re.S | re.M)
    page = quoted.sub(lambda match: "\n" * match[0].count("\n"), page)
    kept = ["" if line.lstrip().startswith(("|", "#")) else line for line in page.split("\n")]
    return blocks_of(kept, r"\s*(?:[-*]|\d+\.)\s")


def comments(text):
    """The comments of a source with their lines. Only those that have a line of their own are prose."""
    kept = [line if re.match(r"\s*//", line) else "" for line in text.split("\n")]
    return blocks_of(kept, r"\s*///?\s*(?:[-*]\s|$)")


def blocks_of(lines, opening):
    """Neighbouring lines as one text, with the number of the first.

    An empty line ends a text. A line that `opening` matches begins another.
    """
    found = []
    goes_on = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            goes_on = False
        elif goes_on and not re.match(opening, line):
            found[-1][1].append(line)
        else:
            found.append((number, [line]))
            goes_on = True
    return [(number, "\n".join(text)) for number, text in found]


def sentences(text):
    text = re.sub(r"^\s*(?:///?|[-*]\s|\d+\.\s)\s?(?:- )?", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", " ".join(text.split()))
    return [part for part in parts if len(part.split()) > 2]


def is_opened_badly(sentence):
    if sentence.endswith("?") or re.match(r"(?:Where|Of) [^,;:]*,", sentence):
        return False
    return re.match(rf"(?:{'|'.join(OPENERS)})\b", sentence) is not None


if __name__ == "__main__":
    main()

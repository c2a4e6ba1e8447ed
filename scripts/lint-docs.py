#!/usr/bin/env python3
"""Checks the documents of this repository. Each fault is a line `FILE:LINE: TEXT`; the exit code is then 1.

Usage: scripts/lint-docs.py [ROOT]

Pages are README.md, CONTRIBUTING.md, CHANGELOG.md and docs/**/*.md. These rules hold:

- A relative link leads to a file, and its anchor to a heading, by the rules of GitHub.
- A page that a source file or a page names in its text exists, with the anchor or the quoted section behind it.
- A line of prose has at most 120 columns. Tables, fenced blocks, lines that are one link, and vectors between the marks
  `vectors begin` and `vectors end` are exempt.
- A block of shell commands has a mark in the line before it, as DocumentedBlocksTests reads marks.
- A `relay` command, in a fenced block or in an inline code span, has a subcommand and options that Sources/RelayCommand
  declares.
"""

import bisect
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # Nothing is left beside the scripts.
from swift_text import without_texts  # noqa: E402

COLUMNS = 120
# A reason of fewer characters tells nobody anything; DocumentedBlocksTests says the same.
REASON = 10
# Files whose text may name a page.
CITING = ["Sources", "Tests", "Tools", "Plugins", "deploy", "scripts", "cluster", ".ci", "Makefile", "Package.swift"]
TEXT_SUFFIXES = {"", ".swift", ".c", ".h", ".py", ".sh", ".yml", ".yaml", ".json", ".cfg", ".conf", ".proto", ".lua"}


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else pathlib.Path(__file__).parent.parent).resolve()
    names = [name for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] if (root / name).exists()]
    names += sorted(str(path.relative_to(root)) for path in root.glob("docs/**/*.md"))
    if not names:
        sys.exit(f"lint-docs: {root} has no pages")
    pages = {name: Page(name, (root / name).read_text()) for name in names}
    check = Check(root, pages)
    for page in pages.values():
        check.links(page)
        check.columns(page)
        check.marks(page)
        check.commands(page)
        check.citations(page.name, re.sub(r"\]\([^)]*\)", blank, page.prose))
    for name, text in citing_files(root):
        check.citations(name, text)
    for name, line, fault in sorted(set(check.faults)):
        print(f"{name}:{line}: {fault}")
    sys.exit(1 if check.faults else 0)


def citing_files(root):
    for start in CITING:
        for path in [root / start] if (root / start).is_file() else sorted((root / start).rglob("*")):
            if path.suffix in TEXT_SUFFIXES and path.is_file() and "Corpora" not in path.parts:
                try:
                    yield str(path.relative_to(root)), path.read_text()
                except UnicodeDecodeError:
                    continue  # It is no text.


class Lines:
    """Places in a text, as numbers of lines that begin with 1."""

    def __init__(self, text):
        self.starts = [0] + [match.end() for match in re.finditer("\n", text)]

    def at(self, offset):
        return bisect.bisect(self.starts, offset)


def blank(match):
    """The same room, with nothing in it."""
    return re.sub(r"[^\n]", " ", match[0])


class Block:
    """A fenced block: its language, the line of its fence, the line before that, and its lines with their numbers."""

    def __init__(self, language, line, before):
        self.language, self.line, self.before, self.lines = language, line, before, []


class Page:
    """A page of Markdown: its blocks, and the text with blocks and comments blanked out."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.blocks, kept, fence, before = [], [], None, ""
        for number, line in enumerate(text.split("\n"), 1):
            words = line.strip()
            if fence:
                if words.startswith(fence) and not words.strip(fence[0]):
                    fence = None
                else:
                    self.blocks[-1].lines.append((number, line))
                kept.append(" " * len(line))
            elif opened := re.match(r"(`{3,}|~{3,})\s*(\w*)", words):
                fence = opened[1]
                self.blocks.append(Block(opened[2], number, before))
                kept.append(" " * len(line))
            else:
                kept.append(line)
            before = words
        self.prose = re.sub(r"<!--.*?-->", blank, "\n".join(kept), flags=re.S)
        self.lines = Lines(text)
        self.spans = [
            (match.start(), " ".join(match[2].split()))
            for match in re.finditer(r"(?<!`)(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)", self.prose, re.S)
        ]
        self.headings = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", self.prose, re.M)
        # A heading may say in brackets whose idea the section is; citations leave that out.
        self.sections = {slug_of(re.sub(r" \([^)]*\)$", "", heading)) for heading in self.headings}
        self.anchors = set(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", self.prose))
        for heading in self.headings:
            slug, count = slug_of(heading), 0
            while (numbered := f"{slug}-{count}" if count else slug) in self.anchors:
                count += 1
            self.anchors.add(numbered)


def slug_of(heading):
    """A heading's anchor: its words in lower case, without marks, joined by hyphens."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


class Check:
    def __init__(self, root, pages):
        self.root, self.pages, self.faults = root, pages, []
        self.program = Program(root / "Sources/RelayCommand", self.fault)
        self.suites = {path.stem for path in root.glob("Tests/**/*Tests.swift")}

    def fault(self, name, line, text):
        self.faults.append((name, line, text))

    def links(self, page):
        text = re.sub(r"(?<!`)(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)", blank, page.prose, flags=re.S)
        inline = r"\]\(\s*<?([^\s()<>]+(?:\([^\s()]*\))?)>?(?:\s+\"[^\"]*\")?\s*\)"
        defined = r"^ {0,3}\[[^\]]+\]:\s+<?([^\s<>]+)>?"
        written = r"<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]+)\""
        for match in re.finditer(f"{inline}|{defined}|{written}", text, re.M):
            target = next(group for group in match.groups() if group)
            if not re.match(r"[a-z][a-z0-9+.-]*:|//", target):
                self.link(page, page.lines.at(match.start()), target)

    def link(self, page, line, target):
        path, _, anchor = target.partition("#")
        file = (self.root / page.name).parent / path if path else self.root / page.name
        file = pathlib.Path(file).resolve()
        if self.root not in [file, *file.parents]:
            return self.fault(page.name, line, f"the link {target} leads out of the repository")
        if not file.exists():
            return self.fault(page.name, line, f"the link {target} leads to no file")
        if "#" in target:
            self.anchor(page.name, line, str(file.relative_to(self.root)), anchor)

    def anchor(self, name, line, target, anchor):
        if target in self.pages:
            if anchor not in self.pages[target].anchors:
                self.fault(name, line, f"{target} has no anchor #{anchor}")
        elif lines := re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor):
            count = len((self.root / target).read_text().splitlines())
            if max(int(number) for number in lines.groups() if number) > count:
                self.fault(name, line, f"{target} has no line #{anchor}")
        else:
            self.fault(name, line, f"{target} is no page: it has no anchor #{anchor}")

    def citations(self, name, text):
        """Checks the pages that a text names by their paths. Only URLs in deploy/ are of this repository's pages."""
        lines = Lines(text)
        own = r"(?:https?://[^\s\"')]*?/)?" if name.startswith("deploy/") else ""
        pattern = (
            rf"(?<![\w/.\-]){own}(?:/usr/share/doc/relay/([\w\-]+\.md)|(docs/[\w\-][\w./\-]*\.(?:md|yaml))"
            r"|((?:README|CONTRIBUTING|CHANGELOG)\.md))(#[\w\-]+)?"
        )
        for match in re.finditer(pattern, text):
            # The package has all pages in one folder.
            installed = match[1] and (match[1] if (self.root / match[1]).exists() else f"docs/{match[1]}")
            target = installed or match[2] or match[3]
            line = lines.at(match.start())
            if not (self.root / target).exists():
                self.fault(name, line, f"there is no {target}")
            elif match[4]:
                self.anchor(name, line, target, match[4][1:])
            elif target in self.pages:
                # A comment may go on in the next line.
                behind = re.sub(r"\s*\n\s*(?:///?|#|--|\*)?\s*", " ", text[match.end() : match.end() + 200])
                cited = re.match(r"\)?, \"([^\"\\]+?)[.,]?\"", behind)
                if cited and slug_of(cited[1]) not in self.pages[target].sections:
                    self.fault(name, line, f"{target} has no section \"{cited[1]}\"")

    def columns(self, page):
        exempt = {number for block in page.blocks for number in [block.line, *(each[0] for each in block.lines)]}
        for match in re.finditer(r"<!-- vectors begin -->.*?<!-- vectors end -->", page.text, re.S):
            exempt.update(range(page.lines.at(match.start()), page.lines.at(match.end())))
        for number, line in enumerate(page.text.split("\n"), 1):
            if len(line) <= COLUMNS or number in exempt or line.lstrip().startswith("|"):
                continue
            link = r"!?\[[^\]]*\]\(\S+\)|<?https?://\S+|\[[^\]]+\]:\s+\S+"
            if re.fullmatch(rf"\s*(?:[-*]\s+|\d+\.\s+)?(?:{link})[.,]?", line):
                continue
            self.fault(page.name, number, f"{len(line)} columns: a line of prose has at most {COLUMNS}")

    def marks(self, page):
        kind = r"<!-- (?:run\b.*|not run\b.*) -->"
        shells = [block for block in page.blocks if block.language in ("sh", "bash")]
        marked = [number for number, line in enumerate(page.text.split("\n"), 1) if re.fullmatch(kind, line.strip())]
        for number in marked:
            if number + 1 not in {block.line for block in shells}:
                self.fault(page.name, number, "this mark stands before no block of sh")
        # The pages below docs/reference and docs/decisions quote; nobody types what they show.
        if not marked and page.name.count("/") > 1:
            return
        for block in shells:
            if fault := self.fault_of_mark(page, block.before):
                self.fault(page.name, block.line, fault)

    def fault_of_mark(self, page, mark):
        if mark in ("<!-- run -->", "<!-- run but for its first lines -->"):
            return None
        if suite := re.fullmatch(r"<!-- run by (\w+) -->", mark):
            return None if suite[1] in self.suites else f"its mark names {suite[1]}, which is no suite in Tests"
        if script := re.fullmatch(r"<!-- run by (scripts/[a-z.-]+) -->", mark):
            path = self.root / script[1]
            if not path.is_file():
                return f"its mark names {script[1]}, which is not there"
            name = pathlib.Path(page.name).name
            return None if name in path.read_text() else f"its mark names {script[1]}, which does not read {name}"
        if reason := re.fullmatch(r"<!-- not run: (.+) -->", mark):
            return None if len(reason[1]) > REASON else "its mark gives no reason"
        return "a block of sh without a mark in the line before: run, run by TEST, not run: REASON"

    def commands(self, page):
        for block in page.blocks:
            for number, line in block.lines:
                for words in commands_in(line):
                    self.command(page.name, number, words)
        for offset, span in page.spans:
            if span.startswith("relay "):
                self.command(page.name, page.lines.at(offset), span)

    def command(self, name, line, words):
        if fault := self.program.fault_of(words):
            self.fault(name, line, f"{words}: {fault}")


def commands_in(line):
    """The calls of `relay` in a line of a block, without what the shell makes of the rest."""
    code = re.sub(r"(^|\s)#.*$", "", line).replace("$ ", "")
    parts = (part.strip() for part in re.split(r"&&|\|\||[|;]", code))
    return [part for part in parts if part.startswith("relay ") and not part.startswith("relay =")]


class Program:
    """The commands of this program, as its sources declare them to ArgumentParser."""

    ANYWHERE = {"help", "h"}
    AT_ROOT = {"version", "generate-completion-script", "experimental-dump-help"}

    def __init__(self, folder, fault):
        self.types = {}
        for path in sorted(folder.rglob("*.swift")):
            name = str(path.relative_to(folder.parent.parent))
            for declared in declarations(path.read_text(), lambda line, text, name=name: fault(name, line, text)):
                self.types.setdefault(declared.name, Declared(declared.name)).add(declared)
        self.root = next((each for each in self.types.values() if each.command == "relay"), None)

    def find(self, reference, scope):
        """The type that `reference` means inside of `scope`; None for one that is declared elsewhere."""
        parts = scope.split(".")
        for count in range(len(parts), -1, -1):
            if found := self.types.get(".".join(parts[:count] + [reference])):
                return found
        return None

    def children(self, type):
        found = [self.find(reference, type.name) for reference in type.subcommands]
        return {each.command or kebab(each.name.split(".")[-1].removesuffix("Command")): each for each in found if each}

    def options(self, type):
        options = set(type.options)
        for group in type.groups:
            if found := self.find(group, type.name):
                options |= self.options(found)
        return options

    def fault_of(self, words):
        """What is wrong with a call; None for one that the program takes."""
        if not self.root:
            return "Sources/RelayCommand declares no command `relay`"
        type, is_looking = self.root, True
        for word in words.split(" ")[1:]:
            if word in (">", "<", "2>", "\\", ">>", "&"):
                break
            children = self.children(type)
            default = self.find(type.default, type.name) if type.default else None
            # Usage shows what may be left out in brackets, and choices with bars.
            bare = word.strip("[],")
            if re.match(r"--\w|-[a-z]$", bare):
                option = re.match(r"-*([\w-]*)", bare)[1]
                known = self.options(type) | (self.options(default) if default else set()) | self.ANYWHERE
                if option not in known | (self.AT_ROOT if type is self.root else set()):
                    return f"there is no option {bare}"
            elif is_looking and children:
                if bare in children:
                    type = children[bare]
                elif default:
                    is_looking = False
                elif bare == "help" and type is self.root:
                    return None
                elif re.fullmatch(r"[A-Z]+|…|\.\.\.", bare):
                    return None  # Any of them.
                else:
                    return f"there is no command {bare}"
            else:
                is_looking = False
        return None


class Declared:
    """A type of Swift: its command's name, its subcommands, its options."""

    def __init__(self, name):
        self.name, self.command, self.default = name, None, None
        self.subcommands, self.options, self.groups = [], set(), []

    def add(self, other):
        self.command, self.default = other.command or self.command, other.default or self.default
        self.subcommands += other.subcommands
        self.options |= other.options
        self.groups += other.groups


def kebab(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def declarations(source, fault):
    """The types of a file, an extension being another piece of its type."""
    code, texts = without_texts(source)
    lines = Lines(code)
    stack, waiting, found = [], None, []
    pattern = (
        r"(?P<type>\b(?:struct|extension|enum|class|actor)\s+(?P<name>[A-Z][\w.]*))|(?P<open>\{)|(?P<close>\})"
        r"|(?P<attribute>@(?:Option|Flag|OptionGroup)\b)|(?P<configuration>\bCommandConfiguration\()"
    )
    for match in re.finditer(pattern, code):
        here = next((each for each in reversed(stack) if each), None)
        if match["type"]:
            waiting = Declared(f"{here.name}.{match['name']}" if here else match["name"])
            found.append(waiting)
        elif match["open"]:
            stack.append(waiting)
            waiting = None
        elif match["close"]:
            if stack:
                stack.pop()
        elif here is None:
            continue
        elif match["configuration"]:
            read_configuration(here, balanced(code, match.end() - 1), texts)
        elif not read_option(here, code, match, texts):
            fault(lines.at(match.start()), f"lint-docs.py cannot read this {match['attribute']}: teach it")
    return found


def read_configuration(type, text, texts):
    if name := re.search(r"commandName:\s*§(\d+)§", text):
        type.command = texts[int(name[1])]
    if subcommands := re.search(r"subcommands:\s*\[([^\]]*)\]", text):
        type.subcommands += re.findall(r"([\w.]+)\.self", subcommands[1])
    if default := re.search(r"defaultSubcommand:\s*([\w.]+)\.self", text):
        type.default = default[1]


def read_option(type, code, match, texts):
    """Whether the declaration behind an attribute was one that this script knows."""
    end, names = match.end(), ".long"
    if code[end : end + 1] == "(":
        arguments = balanced(code, end)
        end += len(arguments)
        if re.search(r"\binversion:", arguments):
            return False
        if named := re.search(r"\bname:\s*(\[[^\]]*\]|\.\w+(?:\(§\d+§\))?)", arguments):
            names = named[1]
    declaration = re.compile(r"\s*(?:(?:private|package|fileprivate)\s+)?var\s+`?(\w+)`?(?:\s*:\s*([\w.]+))?")
    variable = declaration.match(code, end)
    if not variable:
        return False
    if match["attribute"] == "@OptionGroup":
        type.groups.append(variable[2])
        return variable[2] is not None
    for kind, text in re.findall(r"\.(\w+)(?:\(§(\d+)§\))?", names):
        if kind in ("long", "shortAndLong"):
            type.options.add(kebab(variable[1]))
        if kind in ("short", "shortAndLong"):
            type.options.add(variable[1][0])
        if kind in ("customLong", "customShort"):
            type.options.add(texts[int(text)])
        if kind not in ("long", "short", "shortAndLong", "customLong", "customShort"):
            return False
    return True


def balanced(code, start):
    """The text from an opening parenthesis to the one that closes it."""
    depth = 0
    for match in re.compile(r"[()]").finditer(code, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return code[start : match.end()]
    return code[start:]


if __name__ == "__main__":
    main()

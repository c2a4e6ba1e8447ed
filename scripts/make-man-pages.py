#!/usr/bin/env python3
"""Writes a manual page for each command of an executable, and its completions for bash, zsh and fish.

All of it is what the executable says of itself. The package's own generator builds everything a second time.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess

SHELLS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/vendor-completions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}


def escaped(text):
    """Text as roff has it: no line is a request, a minus is one, and no character means anything else."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def marked(text):
    """Text with what stands between backquotes in bold."""
    parts = text.split("`")
    return "".join(f"\\fB{escaped(part)}\\fR" if index % 2 else escaped(part) for index, part in enumerate(parts))


def name_of(name):
    return {"long": "--", "short": "-", "longWithSingleDash": "-"}[name["kind"]] + name["name"]


def synopsis(argument):
    if argument["kind"] == "positional":
        text = f"\\fI{escaped(argument['valueName'])}\\fR"
    else:
        text = f"\\fB{escaped(name_of(argument['preferredName']))}\\fR"
        if argument["kind"] == "option":
            text += f" \\fI{escaped(argument['valueName'])}\\fR"
    if argument["isRepeating"]:
        text += "..."
    return f"[{text}]" if argument["isOptional"] else text


def term(argument):
    if argument["kind"] == "positional":
        return f"\\fI{escaped(argument['valueName'])}\\fR"
    names = ", ".join(f"\\fB{escaped(name_of(name))}\\fR" for name in argument["names"])
    return names + (f" \\fI{escaped(argument['valueName'])}\\fR" if argument["kind"] == "option" else "")


def page(command, path, version, date):
    """The page of one command; `path` are the words that call it."""
    title = "-".join(path)
    arguments = [item for item in command.get("arguments", []) if item["shouldDisplay"]]
    children = [item for item in command.get("subcommands", []) if item["shouldDisplay"] and item["commandName"] != "help"]
    lines = [
        f'.TH "{escaped(title.upper())}" 1 "{date}" "relay {escaped(version)}" "Relay"',
        ".SH NAME",
        f"{escaped(title)} \\- {escaped(command.get('abstract', '').rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{escaped(' '.join(path))}\\fR " + " ".join(synopsis(item) for item in arguments),
    ]
    if children:
        lines += [".br", f"\\fB{escaped(' '.join(path))}\\fR \\fIcommand\\fR"]
    if command.get("discussion"):
        lines += [".SH DESCRIPTION"]
        for paragraph in command["discussion"].strip().split("\n\n"):
            lines += [".PP", marked(paragraph)]
    if arguments:
        lines += [".SH OPTIONS"]
        for item in arguments:
            text = marked(item.get("abstract", ""))
            if item.get("defaultValue") and item["kind"] != "flag":
                text += f" (default: {escaped(item['defaultValue'])})"
            if item.get("allValues"):
                text += f" (one of {escaped(', '.join(item['allValues']))})"
            lines += [".TP", term(item), text or "\\&"]
    if children:
        lines += [".SH COMMANDS"]
        for child in children:
            lines += [".TP", f"\\fB{escaped(title + '-' + child['commandName'])}\\fR(1)", marked(child.get("abstract", ""))]
    if len(path) == 1:
        lines += [
            ".SH FILES",
            ".TP", "\\fI/etc/relay/relay.yaml\\fR", "The configuration of the service.",
            ".TP", "\\fI/var/lib/relay\\fR", "What the service keeps, where no other store is configured.",
        ]
    others = [f"\\fB{escaped('-'.join(path[:-1]))}\\fR(1)"] if len(path) > 1 else []
    others += ["\\fI/usr/share/doc/relay\\fR"]
    lines += [".SH SEE ALSO", ", ".join(others)]
    yield title, "\n".join(lines) + "\n"
    for child in children:
        yield from page(child, path + [child["commandName"]], version, date)


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executable", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, help="such as /usr/share: pages go to its man/man1")
    options = parser.parse_args()
    command = json.loads(output(options.executable, "--experimental-dump-help"))["command"]
    version = output(options.executable, "--version").split()[-1]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or None
    date = (datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc) if seconds else datetime.datetime.now()).date()
    manual = options.folder / "man/man1"
    manual.mkdir(parents=True, exist_ok=True)
    for title, text in page(command, [command["commandName"]], version, date.isoformat()):
        (manual / f"{title}.1").write_text(text)
    for shell, place in SHELLS.items():
        file = options.folder / place.format(command["commandName"])
        file.parent.mkdir(parents=True, exist_ok=True)
        # It is read by a shell, and run by none.
        text = output(options.executable, "--generate-completion-script", shell)
        file.write_text(re.sub(r"^#!/bin/bash\n+", "", text))


if __name__ == "__main__":
    main()

"""Reads sources of Swift as text, for the scripts beside it."""

import re


def without_texts(source):
    """Swift without comments and regular expressions, and its texts.

    A number between two signs takes the place of each text. Lines stay where they are.
    """
    texts, code, position = [], [], 0
    token = re.compile(r"//[^\n]*|/\*.*?\*/|#/.*?/#|(?P<hashes>#*)(?P<quote>\"\"\"|\")", re.S)
    while match := token.search(source, position):
        code.append(source[position : match.start()])
        end = match.end()
        if match["quote"] is None:
            text = match[0]
            code.append("\n" * text.count("\n"))
        else:
            end = text_end(source, end, match["quote"], match["hashes"])
            text = source[match.end() : end].removesuffix(match["quote"] + match["hashes"])
            code.append(f"§{len(texts)}§" + "\n" * text.count("\n"))
            texts.append(text)
        position = end
    return "".join(code) + source[position:], texts


def text_end(source, position, quote, hashes):
    """Where a text ends whose contents begin at `position`."""
    while position < len(source):
        if source.startswith(quote + hashes, position):
            return position + len(quote + hashes)
        if source.startswith("\\" + hashes + "(", position):
            position = interpolation_end(source, position + 2 + len(hashes))
        elif source[position] == "\\" and not hashes:
            position += 2
        elif source[position] == "\n" and quote == '"':
            return position
        else:
            position += 1
    return position


def interpolation_end(source, position):
    depth = 1
    while position < len(source) and depth:
        if source[position] == '"':
            quote = '"""' if source.startswith('"""', position) else '"'
            position = text_end(source, position + len(quote), quote, "")
            continue
        depth += {"(": 1, ")": -1}.get(source[position], 0)
        position += 1
    return position

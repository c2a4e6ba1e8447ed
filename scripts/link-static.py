#!/usr/bin/env python3
"""Links an executable of a finished debug build once more, with Swift's own libraries inside, so that it runs where no
Swift is: scripts/link-static.py BUILD-FOLDER PRODUCT OUTPUT

How it is linked is read from the manifest that SwiftPM made for the debug build. Nothing is compiled.
"""

import json
import pathlib
import re
import subprocess
import sys

# What Foundation's static libraries need, and code that was compiled for the shared ones does not name.
NEEDED = ["Foundation", "CoreFoundation", "FoundationInternationalization", "FoundationEssentials", "_FoundationICU",
          "_FoundationCShims", "_FoundationCollections"]
LIBRARIES = [
    word for option in ["--start-group", *(f"-l{name}" for name in NEEDED), "--end-group"]
    for word in ("-Xlinker", option)
]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    build, product, output = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    manifest = (build / "debug.yaml").read_text()
    found = re.search(rf'^  "C\.{re.escape(product)}-[^"-]+-unknown-linux-gnu-debug\.exe":\n((?:    .*\n)+)', manifest, re.M)
    if not found:
        sys.exit(f"link-static: the debug build does not know how to make {product}: build it first")
    arguments = json.loads(re.search(r"^    args: (.*)$", found[1], re.M)[1])
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument == "-o":
            next(rest)
        # The folders of the shared libraries that are inside now.
        elif argument != "-Xlinker" or not (option := next(rest)).startswith("-rpath"):
            kept += [argument] if argument != "-Xlinker" else [argument, option]
        elif option == "-rpath":
            next(rest), next(rest)
    return subprocess.run([*kept, "-static-stdlib", *LIBRARIES, "-o", output], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

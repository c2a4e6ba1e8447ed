#!/usr/bin/env python3
"""Writes an object file with the part of ICU's data that a relay uses, and the flags that link it in place of all of it.

Swift's Foundation carries the data of ICU for every language, alphabet and character set: 34 MB, which a linker cannot
leave out, for it is one symbol. A relay speaks English and UTF-8. What is kept is the root and English, calendars, time
zones, normalisation, and the rules for characters and words: 3.5 MB.

Where the toolchain's archive is another one than this script knows, there are no flags, and all data stays.
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ARCHIVE = "swift_static/linux/lib_FoundationICU.a"
MEMBER = "icu_packaged_data.cpp.o"
LANGUAGES = {"root.res", "en.res", "en_US.res", "en_US_POSIX.res", "en_001.res", "pool.res"}
# In the folders of currencies, languages, zones and so on.
SHARED = {"root.res", "res_index.res", "pool.res", "en.res", "supplementalData.res", "tzdbNames.res", "ucadata.icu"}
RULES = {"char.brk", "word.brk", "line.brk", "sent.brk", "title.brk"}
# The symbol of what is kept.
OURS = "relay_icu_dat"
# Names of characters, look-alikes, names of languages; how one alphabet is written in another.
UNUSED = {"unames.icu", "confusables.cfu", "langInfo.res", "nfkc_scf.nrm"}
UNUSED_FOLDERS = {"translit"}


class Unknown(Exception):
    """The toolchain has something else than this script knows."""


def is_kept(item):
    """Whether `icudtVERSION/ITEM` is."""
    name = item.partition("/")[2]
    folder, _, inside = name.rpartition("/")
    if folder:
        return folder not in UNUSED_FOLDERS and (inside in SHARED or inside in RULES)
    if name.endswith(".cnv"):
        return False
    if re.fullmatch(r"[a-z]{2,3}(_[A-Za-z]+)*\.res|root\.res", name):
        return name in LANGUAGES
    return name not in UNUSED


def reduced(data):
    """The same package of items ("CmnD", ICU's ucmndata.h) with fewer of them."""
    header = struct.unpack_from("<H", data, 0)[0]
    if data[2:4] != b"\xda\x27" or data[12:16] != b"CmnD":
        raise Unknown("it is no package of ICU's data")
    count = struct.unpack_from("<I", data, header)[0]
    table = [struct.unpack_from("<II", data, header + 4 + 8 * index) for index in range(count)]
    names = [data[header + name : data.index(b"\0", header + name)].decode() for name, _ in table]
    ends = [start for _, start in table][1:] + [len(data) - header]
    kept = [(name, data[header + start : header + end]) for name, (_, start), end in zip(names, table, ends) if is_kept(name)]
    if len(kept) < 50:
        raise Unknown("it has other items than expected")
    labels = b"".join(name.encode() + b"\0" for name, _ in kept)
    first = 4 + 8 * len(kept) + len(labels)
    places, body = [], b"\xaa" * (-(header + first) % 16)
    for _, item in kept:
        places.append(first + len(body))
        body += item + b"\xaa" * (-len(item) % 16)
    entries, label = [], 4 + 8 * len(kept)
    for (name, _), place in zip(kept, places):
        entries.append(struct.pack("<II", label, place))
        label += len(name) + 1
    return data[:header] + struct.pack("<I", len(kept)) + b"".join(entries) + labels + body


def packaged(folder):
    """The toolchain's data, and the symbol that it stands at."""
    told = json.loads(subprocess.run(["swift", "-print-target-info"], check=True, stdout=subprocess.PIPE).stdout)
    archive = pathlib.Path(told["paths"]["runtimeResourcePath"]).parent / ARCHIVE
    if not archive.exists():
        raise Unknown(f"there is no {archive}")
    subprocess.run(["ar", "x", archive, MEMBER], cwd=folder, check=True)
    symbols = subprocess.run(["nm", "-S", MEMBER], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.fullmatch(r"0+ [0-9a-f]+ R (icudt[0-9]+_dat)", symbols.strip())
    if not found:
        raise Unknown(f"{MEMBER} has other symbols than expected")
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.rodata", MEMBER, "data"], cwd=folder, check=True)
    return (pathlib.Path(folder) / "data").read_bytes(), found[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flags", type=pathlib.Path, help="the file to write; the object stands beside it")
    target = parser.parse_args().flags.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = ""
    with tempfile.TemporaryDirectory() as folder:
        try:
            data, symbol = packaged(folder)
            small = reduced(data)
            (pathlib.Path(folder) / "small").write_bytes(small)
            lines = [
                ".section .rodata", ".balign 16", f".globl {OURS}", f".type {OURS},@object", f"{OURS}:",
                '.incbin "small"', f".size {OURS}, .-{OURS}", '.section .note.GNU-stack,"",@progbits',
            ]
            (pathlib.Path(folder) / "icu.s").write_text("\n".join(lines) + "\n")
            subprocess.run(["clang", "-c", "icu.s", "-o", target.with_suffix(".o")], cwd=folder, check=True)
            # Two of one name would be one too many: ours takes the place of the archive's.
            flags = f"-Xlinker {target.with_suffix('.o')} -Xlinker --defsym={symbol}={OURS}"
            print(f"ICU's data: {len(small) >> 20} MiB of {len(data) >> 20}")
        except (Unknown, OSError, subprocess.CalledProcessError, KeyError, struct.error) as fault:
            print(f"small-icu: all of ICU's data stays: {fault}", file=sys.stderr)
    target.write_text(flags)


if __name__ == "__main__":
    main()

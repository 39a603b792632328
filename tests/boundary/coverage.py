#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Measures which lines of the product the boundary tests execute.

  coverage.py prepare TREE WORK     finds the lines in the programs of TREE, where the boundary
                                    tests are built
  coverage.py report WORK OUT       summarizes the marks

Between the two, run_mutants.py reach runs the tests with WORK/line_marks.so (line_marks.c), which
marks the executed lines. The programs are optimized, as users have them, so a line without code of
its own is no line here. Libraries without line numbers do not count: before the build, delete
`-Wl,--strip-all` from plugin/python/native/BUILD of TREE. The kernels of CUDA are not compiled.
"""

import argparse
import collections
import json
import os
import re
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SOURCE = re.compile(r"^(?:CU: )?(?:\./)?((?:plugin|runtime)/\S+\.[ch]):$")
ROW = re.compile(r"^\S+\s+(\d+)\s+0x([0-9a-f]+)(?:\s+\d+)?\s+x")
SITE = struct.Struct("<QII")
MAGIC = b"\x7fELF"


def is_program(path):
    try:
        with open(path, "rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return head[:4] == MAGIC and head[16] in (2, 3)  # executable or shared


def list_programs(tree):
    output = os.path.realpath(os.path.join(tree, "bazel-bin"))
    for parent, folders, names in os.walk(output):
        folders[:] = [name for name in folders if not name.endswith(".runfiles")
                      and name != "_objs"]
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path) and os.access(path, os.X_OK) and is_program(path):
                yield path


def read_lines(program):
    """(file, line, address) of the beginning of each statement."""
    readelf = subprocess.Popen(["readelf", "-W", "--debug-dump=decodedline", program],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               errors="replace")
    source = None
    for text in readelf.stdout:
        if text.endswith(":\n"):
            match = SOURCE.match(text.rstrip("\n"))
            source = match.group(1) if match else None
        elif source:
            match = ROW.match(text)
            if match:
                yield source, int(match.group(1)), int(match.group(2), 16)
    readelf.wait()


def read_text(program):
    """(address, end, offset in the file) of the code. Lines of functions that the linker has left
    out have addresses outside of it."""
    text = subprocess.run(["readelf", "-SW", program], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    match = re.search(r"\] \.text\s+PROGBITS\s+(\w+)\s+(\w+)\s+(\w+)", text)
    begin, offset, n = (int(digits, 16) for digits in match.groups())
    return begin, begin + n, offset


def write_sites(program, work, numbers):
    """The places of breakpoints, for line_marks.c."""
    with open(program, "rb") as file:
        data = file.read()
    begin, end, offset = read_text(program)
    sites = set()
    for source, line, address in read_lines(program):
        if begin <= address < end:
            number = numbers.setdefault((source, line), len(numbers))
            sites.add((address, number, data[offset + address - begin]))
    if sites:
        status = os.stat(program)
        with open(os.path.join(work, "%d-%d" % (status.st_dev, status.st_ino)), "wb") as file:
            for site in sorted(sites):
                file.write(SITE.pack(*site))
    return len(sites)


def prepare(tree, work):
    os.makedirs(work, exist_ok=True)
    numbers = {}
    for program in list_programs(tree):
        n = write_sites(program, work, numbers)
        if n:
            print("%s: %d places" % (os.path.relpath(program, os.path.realpath(
                os.path.join(tree, "bazel-bin"))), n), flush=True)
    marks = os.path.join(work, "marks")
    with open(marks, "wb") as file:
        file.write(bytes(len(numbers)))
    os.chmod(marks, 0o666)
    with open(os.path.join(work, "lines.json"), "w", encoding="utf-8") as file:
        json.dump([[source, line] for source, line in numbers], file)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o",
                    os.path.join(work, "line_marks.so"),
                    os.path.join(ROOT, "tests/boundary/line_marks.c"), "-ldl"], check=True)


def summarize(lines):
    """`lines`: {path: {line: was executed}}."""
    def of(paths):
        n = sum(len(lines[path]) for path in paths)
        covered = sum(sum(lines[path].values()) for path in paths)
        return {"lines": n, "covered": covered, "percent": round(100 * covered / max(n, 1), 1)}

    folders = collections.defaultdict(list)
    for path in lines:
        folders[os.path.dirname(path)].append(path)
    servers = [path for path in lines if not path.startswith(("runtime/nn/", "runtime/trainer/"))]
    return {
        "all": of(lines),
        "without trainers and nn": of(servers),
        "folders": {folder: of(paths) for folder, paths in sorted(folders.items())},
        "files": {path: of([path])["percent"] for path in sorted(lines)},
    }


def report(work, output):
    lines = collections.defaultdict(dict)
    with open(os.path.join(work, "lines.json"), encoding="utf-8") as file, \
            open(os.path.join(work, "marks"), "rb") as marks:
        for (source, line), mark in zip(json.load(file), marks.read()):
            if line > 1:  # mutants.py writes its switch into the first line
                lines[source][line] = bool(mark)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(summarize(lines), file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "report"])
    parser.add_argument("folder", nargs=2)
    arguments = parser.parse_args()
    {"prepare": prepare, "report": report}[arguments.command](*map(os.path.abspath,
                                                                   arguments.folder))


if __name__ == "__main__":
    sys.exit(main())

"""Copies public headers, and the headers of this tree that they include, for an installation.

usage: headers.py FOLDER ROOT... -- HEADER...

ROOT is a path from the root of the tree, HEADER a file of Bazel's. A copy is FOLDER/thriftps/<path
from the root>, or FOLDER/thriftps/X.h for plugin/include/thriftps/X.h. It includes others as
<thriftps/...>, which a program's own "runtime/..." cannot hide.
"""

import os
import re
import sys

INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)"([^"]+)"', re.MULTILINE)
PUBLIC = re.compile(r"^#include <(thriftps/[^>]+)>", re.MULTILINE)
FOLDER = "plugin/include/"
OURS = re.compile(r"(?:^|/)((?:plugin|runtime)/.*\.h)$")


def find_ours(headers):
    """Files by their path from the root of the tree, which may be an external repository."""
    files = {}
    for header in headers:
        path = re.sub(r"^(bazel-out/[^/]+/bin/)?(external/[^/]+/)?", "", header)
        if OURS.match(path):
            files[path] = header
    return files


def main(arguments):
    split = arguments.index("--")
    folder, pending, files = arguments[0], arguments[1:split], find_ours(arguments[split + 1 :])
    done = set()
    while pending:
        path = pending.pop()
        if path in done:
            continue
        done.add(path)
        if path not in files:
            sys.exit("headers.py: %s is no header of `deps`" % path)
        with open(files[path], encoding="utf-8") as file:
            text = file.read()
        pending += [match.group(2) for match in INCLUDE.finditer(text)]
        pending += [FOLDER + match.group(1) for match in PUBLIC.finditer(text)]
        copy = os.path.join(folder, path[len(FOLDER) :] if path.startswith(FOLDER)
                            else "thriftps/" + path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "w", encoding="utf-8") as file:
            file.write(INCLUDE.sub(r"\1<thriftps/\2>", text))


if __name__ == "__main__":
    main(sys.argv[1:])

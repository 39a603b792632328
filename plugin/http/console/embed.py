# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the files of the web console as a C table.

usage: embed.py OUTPUT FOLDER FILE...

FOLDER is the folder of the console; each FILE lies in it or below it.
"""

import hashlib
import os
import sys

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}

HEAD = """/* Written by plugin/http/console/embed.py. */

#include "plugin/http/console/embedded.h"
"""

NUMBERS_PER_LINE = 24


def url_path(path, folder):
    """The path in a URL of a file: "/" for the page, "/console/NAME" for all others."""
    name = os.path.relpath(path, folder).replace(os.sep, "/")
    return "/" if name == "index.html" else "/console/" + name


def write_bytes(content):
    for begin in range(0, len(content), NUMBERS_PER_LINE):
        yield "  %s,\n" % ",".join(map(str, content[begin:begin + NUMBERS_PER_LINE]))


def write_table(files):
    """The text of the C file. `files`: (path in a URL, extension, bytes)."""
    yield HEAD
    entries = []
    for number, (path, extension, content) in enumerate(sorted(files)):
        yield "\nstatic const guint8 file_%d[] = { /* %s */\n" % (number, path)
        yield from write_bytes(content)
        yield "};\n"
        entries.append('  { "%s", "%s", "\\"%s\\"", file_%d, sizeof file_%d },\n' % (
            path, CONTENT_TYPES[extension], hashlib.sha256(content).hexdigest()[:16],
            number, number))
    yield "\nconst TpsConsoleFile tps_console_embedded[] = {\n%s};\n" % "".join(entries)
    yield "\nconst gsize tps_n_console_embedded = G_N_ELEMENTS (tps_console_embedded);\n"


def main(output, folder, *paths):
    files = []
    for path in paths:
        with open(path, "rb") as source:
            files.append((url_path(path, folder), os.path.splitext(path)[1], source.read()))
    with open(output, "w", encoding="utf-8") as table:
        table.writelines(write_table(files))


if __name__ == "__main__":
    main(*sys.argv[1:])

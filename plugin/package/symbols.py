"""The exported symbols of libthriftps.so, from the checked-in list debian/libthriftps0.symbols in
the format of dpkg-gensymbols.

usage: symbols.py names LIST       one name per line
       symbols.py script LIST      a version script
       symbols.py roots LIST       options for ld: the names that must be linked
       symbols.py update VERSION   regenerates the list from the installed headers; VERSION is the
                                   version of new names: ./bazelw run //plugin/package:symbols
"""

import os
import re
import subprocess
import sys
import tempfile

LIST = "plugin/package/debian/libthriftps0.symbols"
NODE = "THRIFTPS_0"  # changes together with the SONAME
SYMBOL = re.compile(r"^ (\w+)@(\w+) (\S+)$")
DECLARATION = re.compile(r"^/\* (\S+):\d+:N[CF] \*/ extern .*?\b(tps_\w+) \(", re.MULTILINE)
DATA = re.compile(r"^(?:G_\w+ )?extern [^;(]*?\b(tps_\w+)(?:\[[^\]]*\])?;", re.MULTILINE)


def read_list(path):
    """Returns (soname line, [(name, node, since)])."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return lines[0], [SYMBOL.match(line).groups() for line in lines[1:]]


def get_names(path):
    return [name for name, node, _ in read_list(path)[1] if name != node]


def list_headers(folder):
    return sorted(
        os.path.relpath(os.path.join(root, file), folder)
        for root, _, files in os.walk(folder, followlinks=True)
        for file in files
    )


def find_declared(folder, cflags, compiler="gcc"):
    """The names of all functions and objects that the headers declare."""
    headers = list_headers(folder)
    with tempfile.TemporaryDirectory() as work:
        source, prototypes = os.path.join(work, "all.c"), os.path.join(work, "all.X")
        with open(source, "w", encoding="utf-8") as file:
            file.write("".join("#include <%s>\n" % header for header in headers))
        subprocess.run(
            [
                compiler,
                "-std=c11",
                "-w",
                "-fsyntax-only",
                "-aux-info",
                prototypes,
                "-I",
                folder,
                *cflags,
                source,
            ],
            check=True,
        )
        with open(prototypes, encoding="utf-8") as file:
            names = {
                match.group(2)
                for match in DECLARATION.finditer(file.read())
                if "/thriftps/" in match.group(1)
            }
    for header in headers:
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            names.update(DATA.findall(file.read()))
    return names


def update(version):
    path = os.path.join(os.environ["BUILD_WORKSPACE_DIRECTORY"], LIST)
    folder = "plugin/package/include"  # in the runfiles
    cflags = subprocess.run(
        ["pkg-config", "--cflags", "thrift_c_glib"],
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    ).stdout.split()
    first, old = read_list(path)
    since = {name: (node, first_version) for name, node, first_version in old}
    names = sorted(find_declared(folder, cflags) | {NODE})
    with open(path, "w", encoding="utf-8") as file:
        file.write(first + "\n")
        for name in names:
            file.write(" %s@%s %s\n" % ((name,) + since.get(name, (NODE, version))))


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    command, path = arguments
    if command == "update":
        update(version=path)
    elif command == "names":
        print("\n".join(get_names(path)))
    elif command == "roots":
        print("\n".join("-u %s" % name for name in get_names(path)))
    elif command == "script":
        names = ";\n    ".join(get_names(path))
        print("%s {\n  global:\n    %s;\n  local:\n    *;\n};" % (NODE, names))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The exported symbols of libthriftps.so: the functions and objects that the public headers
declare.

usage: symbols.py names HEADER...      one name per line
       symbols.py script HEADER...     a version script
"""

import re
import sys

NODE = "THRIFTPS_0"  # changes together with the SONAME
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
MACRO = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$|^G_\w+(?: \([^()]*\))?$", re.MULTILINE)
BODY = re.compile(r"\{[^{}]*\}")
FUNCTION = re.compile(r"\b(tps_\w+) \(")
OBJECT = re.compile(r"\btps_\w+")


def find_declared(text):
    """The names that a header declares."""
    text = MACRO.sub("", COMMENT.sub("", text))
    while BODY.search(text):
        text = BODY.sub("", text)
    names = set()
    for statement in text.split(";"):
        if "typedef" in statement:
            continue
        function = FUNCTION.search(statement)
        if function:
            names.add(function.group(1))
        elif "extern" in statement:
            names.update(OBJECT.findall(statement))
    return names


def get_names(headers):
    names = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            names |= find_declared(file.read())
    return sorted(names)


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("names", "script"):
        sys.exit(__doc__)
    names = get_names(arguments[1:])
    if arguments[0] == "names":
        print("\n".join(names))
    else:
        print("%s {\n  global:\n    %s;\n  local:\n    *;\n};" % (NODE, ";\n    ".join(names)))


if __name__ == "__main__":
    main(sys.argv[1:])

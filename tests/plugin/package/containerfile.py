"""Parses a Containerfile, as strictly as our own requires.

    containerfile.py Containerfile build     its COPY and RUN steps as a script for /bin/sh
"""

import json
import re
import sys

KNOWN = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL",
    "USER", "VOLUME",
}


def read(path):
    """Lists of (instruction, rest of the line)."""
    steps = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, _, rest = line.partition(" ")
            if name not in KNOWN or not rest:
                raise ValueError("%s:%d: %s" % (path, number, line))
            steps.append((name, rest))
    if not steps or steps[0][0] != "FROM":
        raise ValueError("%s does not begin with FROM" % path)
    return steps


def get(steps, name):
    """The last instruction of this name."""
    return [rest for each, rest in steps if each == name][-1]


def get_command(steps, name):
    """One of ENTRYPOINT, CMD and HEALTHCHECK in the form without a shell."""
    command = json.loads(get(steps, name).partition("[")[1] + get(steps, name).partition("[")[2])
    assert command and all(isinstance(word, str) for word in command)
    return command


def get_environment(steps):
    pairs = (rest.partition("=") for name, rest in steps if name == "ENV")
    return {name: value for name, _, value in pairs}


def to_script(steps):
    """The work of a builder, for a root folder whose /context has the files."""
    lines = ["set -eu"]
    for name, rest in steps:
        if name == "ARG":
            lines.append(rest)
        elif name == "COPY":
            *sources, target = rest.split()
            lines.append("mkdir -p %s" % target)
            lines += ["cp /context/%s %s" % (source, target) for source in sources]
        elif name == "RUN":
            lines.append("( %s )" % rest)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    assert sys.argv[2] == "build"
    sys.stdout.write(to_script(read(sys.argv[1])))
    assert re.fullmatch(r"\d+:\d+", get(read(sys.argv[1]), "USER"))

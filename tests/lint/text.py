#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Text of the tree: no line is longer than 100 columns, no banned word is used, and links of
documents resolve.

Lines that cannot be broken are exempt: string literals of other languages than Python, tables of
documents, commands that documents show, addresses, and Python strings of several lines that are not
docstrings, because a break would change their value.

A banned word is one that only this tree would use, or that readers had to read twice. The message
names its replacement.
"""

import io
import os
import re
import subprocess
import sys
import tokenize

COLUMNS = 100
CODE = (".c", ".cc", ".cu", ".cuh", ".h")
OTHERS = (".bzl", ".md", ".sh", ".thrift", "BUILD")
BANNED = {
    r"errands?": "call, request",
    r"opponents?": "original, other",
    r"misfits?": "error, mismatch",
    r"(?:go|goes|turn|turns|gone) sour": "fail, fails",
    r"turn_sour": "fail",
    r"forgives?": "(say what is accepted)",
    r"in vain": "without result",
    r"for want of": "because there is no",
    r"as it were": "(leave it out)",
    r"by and by": "gradually",
}
PATTERN = re.compile(r"\b(%s)\b" % "|".join(BANNED), re.IGNORECASE)
TOPS = "(?:bench|cuda|plugin|runtime|tests|third_party|thrift)"
# Foreign texts, and this list.
EXEMPT = ("LICENSE", "tests/lint/text.py", "third_party/cuda/")


def find_replacement(word):
    return next(text for pattern, text in BANNED.items()
                if re.fullmatch(pattern, word, re.IGNORECASE))


def has_to_be_long(path, line, in_block):
    if path.endswith(".md"):
        return in_block or line.startswith(("|", "    ")) or "](" in line or "<!--" in line
    if '"' in line or "http" in line:
        return True
    # A shell command must be on one line, and so must a method of a contract.
    return path.endswith((".sh", ".bzl", "BUILD", ".thrift")) \
        and not line.lstrip().startswith(("#", "//"))


def find_data_lines(text):
    """The numbers of the lines of Python that are inside of strings of several lines. Docstrings
    are not included."""
    found = set()
    last = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and last != tokenize.NEWLINE:
            found.update(range(token.start[0] + 1, token.end[0]))
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            last = token.type
    return found


def find_wide_lines(path, lines):
    """Yields the numbers of the lines that are too long and could be broken."""
    data = find_data_lines("".join(lines)) if path.endswith(".py") else set()
    in_block = False
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if path.endswith(".md") and line.lstrip().startswith("```"):
            in_block = not in_block
        if len(line) <= COLUMNS:
            continue
        if path.endswith(".py"):
            if number not in data and "http" not in line:
                yield number
        elif not has_to_be_long(path, line, in_block):
            yield number


def find_anchors(path):
    with open(path, encoding="utf-8") as text:
        titles = re.findall(r"^#+ (.*)", text.read(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find_dead_links(path, text):
    """Yields the targets of links, and the names of files in backquotes, that do not exist."""
    folder = os.path.dirname(path)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(folder, name)) if name else path
        if "://" not in target and (not os.path.exists(file)
                                    or anchor and anchor not in find_anchors(file)):
            yield target
    for name in re.findall(r"`([\w./]+\.md|%s/[\w./]+\.\w+)`" % TOPS, text):
        if not re.search("NAME|SERVICE", name) \
                and not any(os.path.exists(os.path.join(top, name)) for top in (folder, "")):
            yield name


def check(path):
    with open(path, encoding="utf-8") as text:
        lines = text.readlines()
    problems = ["%s:%d: more than %d columns" % (path, number, COLUMNS)
                for number in find_wide_lines(path, lines)]
    if path.endswith(".md"):
        problems += ["%s: %s does not exist" % (path, target)
                     for target in find_dead_links(path, "".join(lines))]
    for number, line in enumerate(lines, 1):
        for match in PATTERN.finditer(line):
            problems.append("%s:%d: \"%s\"; better: %s"
                            % (path, number, match.group(0), find_replacement(match.group(1))))
    return problems


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    paths = [path for path in listed.splitlines()
             if path.endswith(CODE + OTHERS + (".py",)) and not path.startswith(EXEMPT)
             and os.path.exists(path)]
    problems = [problem for path in paths for problem in check(path)]
    print("\n".join(problems + ["text: %d files, %d problems" % (len(paths), len(problems))]))
    return 1 if problems or not paths else 0


if __name__ == "__main__":
    sys.exit(main())

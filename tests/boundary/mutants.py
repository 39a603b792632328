#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Plants random bugs in the product, all of them in one build, which an environment variable
selects.

  mutants.py select TREE LIST.json       draws the mutants and writes them with the state "not run"
  mutants.py plant TREE LIST.json        changes the sources of TREE, a copy of the working tree

A mutant replaces a condition, an initial value or a statement by `chosen ? changed : original`, so
that one build has all mutants, and lines keep their numbers. run_mutants.py runs the tests. The
choice depends only on the seed and on the sources.

Excluded are statements that only trace, log or check an invariant: without them, a program that has
no other bug behaves in the same way.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys

SEED = 20261128
N_PER_GROUP = 40
MAX_DROPS = 14  # in a group: most statements have no other change
# Files of each group, as regular expressions on paths. The folders may change; the groups stay.
GROUPS = {
    "server": r"(plugin/server|runtime/server|runtime/server/durable)/[^/]*\.c",
    "tables": r"runtime/server/tables/.*\.c",
    "log": r"runtime/server/(log|snapshot)/[^/]*\.c",
    "averaging": r"runtime/server/(averaging|model)/[^/]*\.c",
    "frame": r"plugin/(frame|wire)/[^/]*\.c",
}
# Statements that begin with these names are not changed.
QUIET = re.compile(
    r"tps_trace|tps_log_|g_assert|g_return|g_debug|g_warn|g_message|g_error\b|tps_fault")

TOKEN = re.compile(r'''
    (?P<space>\s+|/\*.*?\*/|//[^\n]*)
  | (?P<string>L?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)[uUlLfF]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<operator>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|[^\s\w])
''', re.VERBOSE | re.DOTALL)

SWAPS = {
    "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
    "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"], "&": ["|"], "|": ["&"],
    "<<": [">>"], ">>": ["<<"], "+=": ["-="], "-=": ["+="], "++": ["--"], "--": ["++"],
}
DROP = "drop the statement"
OPENING, CLOSING = "([{", ")]}"


class Token:
    __slots__ = ("kind", "text", "at", "end")

    def __init__(self, kind, text, at):
        self.kind, self.text, self.at, self.end = kind, text, at, at + len(text)


def tokenize(text, begin, end):
    """The tokens of a part of a file, without blanks and comments."""
    at, tokens = begin, []
    while at < end:
        match = TOKEN.match(text, at, end)
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match.group(), at))
        at = match.end()
    return tokens


def find_bodies(text):
    """Begin and end of every function body: braces in the first column, after a line that ends the
    parameters."""
    for match in re.finditer(r"^\{$", text, re.MULTILINE):
        if text[:match.start()].rstrip().endswith(")"):
            yield match.end(), text.index("\n}", match.end())


def close(tokens, i):
    """The index of the bracket that closes the one at i."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += tokens[j].text in OPENING
        depth -= tokens[j].text in CLOSING
        if depth == 0:
            return j
    raise ValueError("a bracket without an end")


def find_units(tokens):
    """Yields (kind, first, last): the tokens of a condition, an initial value or a statement with
    its semicolon. `kind` is "condition", "value", "return" or "statement"."""
    i = 0
    while i < len(tokens):
        word = tokens[i].text
        if word in ("if", "while", "switch") and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            last = close(tokens, i + 1)
            if word != "switch":
                yield "condition", i + 2, last - 1
            i = last + 1
        elif word == "for":
            last = close(tokens, i + 1)
            parts = [j for j in range(i + 2, last) if tokens[j].text == ";"]
            if len(parts) == 2 and parts[1] > parts[0] + 1:
                yield "condition", parts[0] + 1, parts[1] - 1
            i = last + 1
        elif word in "{};" or word in ("else", "do"):
            i += 1
        elif word in ("case", "default") or (i + 1 < len(tokens) and tokens[i + 1].text == ":"):
            while tokens[i].text != ":":
                i += 1
            i += 1
        else:
            last = i
            while tokens[last].text != ";":
                last = close(tokens, last) + 1 if tokens[last].text in OPENING else last + 1
                if last >= len(tokens):
                    return
            yield from find_unit_of_statement(tokens, i, last)
            i = last + 1


def find_unit_of_statement(tokens, first, last):
    word, following = tokens[first].text, tokens[first + 1].text
    if word == "return":
        if last > first + 1:
            yield "return", first + 1, last - 1
    elif word in ("break", "continue", "goto", "static", "extern", "typedef") or QUIET.match(word):
        return
    elif tokens[first].kind == "word" and (
            tokens[first + 1].kind == "word" or word.startswith("g_auto")
            or (following == "*" and tokens[first + 2].kind == "word" and last > first + 3
                and tokens[first + 3].text in ("=", ",", ";"))
            or (following == "*" and last == first + 3)):
        equals = [j for j in range(first, last) if tokens[j].text == "="]
        commas = depth = 0
        for j in range(first, last):
            depth += tokens[j].text in OPENING
            depth -= tokens[j].text in CLOSING
            commas += tokens[j].text == "," and depth == 0
        if len(equals) == 1 and not commas and tokens[equals[0] + 1].text != "{":
            yield "value", equals[0] + 1, last - 1
    else:
        yield "statement", first, last - 1


def is_cast_or_unary(tokens, j, first):
    """Whether the operator at j has only one operand, or is part of a type."""
    before = tokens[j - 1] if j > first else None
    return before is None or before.text in OPENING or before.text in (",", "?", ":", "return") \
        or (before.kind == "operator" and before.text not in CLOSING
            and before.text not in ("++", "--")) \
        or before.text == "sizeof" or tokens[j + 1].text in (")", ",")


def find_changes(kind, tokens, first, last):
    """Yields (change, (begin, end), new text): what happens to which part of the source."""
    begin, end = tokens[first].at, tokens[last].end
    if kind == "condition":
        yield "negate the condition", None, None
    if kind == "statement" and tokens[first].text != "(":
        yield DROP, None, None
    if kind == "return" and first == last and tokens[first].text in ("TRUE", "FALSE"):
        yield "return the other value", (begin, end), \
            "FALSE" if tokens[first].text == "TRUE" else "TRUE"
    for j in range(first, last + 1):
        token = tokens[j]
        if token.kind == "operator" and token.text in SWAPS and j < last:
            if token.text in "+-*&" and is_cast_or_unary(tokens, j, first):
                continue
            for other in SWAPS[token.text]:
                yield "swap the operator", (token.at, token.end), other
        elif token.kind == "operator" and token.text in ("++", "--"):
            yield "swap the operator", (token.at, token.end), SWAPS[token.text][0]
        elif token.kind == "number" and re.fullmatch(r"\d+[uUlL]*", token.text):
            digits = re.match(r"\d+", token.text).group()
            yield "change the constant", (token.at, token.end), \
                str(int(digits) + 1) + token.text[len(digits):]
        elif token.kind == "word" and token.text in ("TRUE", "FALSE") and kind != "return":
            yield "change the constant", (token.at, token.end), \
                "FALSE" if token.text == "TRUE" else "TRUE"


def flatten(text, begin, end):
    """The source on one line, without comments."""
    return " ".join(re.sub(r"/\*.*?\*/", " ", text[begin:end], flags=re.DOTALL).split())


def find_mutants(path, text):
    for begin, end in find_bodies(text):
        if "#" in re.sub(r'"(?:\\.|[^"\\])*"', "", text[begin:end]):
            continue  # conditional compilation
        tokens = tokenize(text, begin, end)
        for kind, first, last in find_units(tokens):
            at, stop = tokens[first].at, tokens[last].end
            before = flatten(text, at, stop)
            if any(token.text in ("asm", "__asm__") for token in tokens[first:last + 1]) \
                    or "g_assert" in before:
                continue
            for change, part, new in find_changes(kind, tokens, first, last):
                if part is None:
                    after = "!(%s)" % before if kind == "condition" else ""
                    line = text.count("\n", 0, at) + 1
                else:
                    after = " ".join((flatten(text, at, part[0]) + " " + new + " "
                                      + flatten(text, part[1], stop)).split())
                    line = text.count("\n", 0, part[0]) + 1
                yield {"file": path, "line": line, "change": change, "kind": kind,
                       "before": before, "after": after, "at": at, "end": stop}


def list_sources(tree):
    listed = subprocess.run(["git", "ls-files", "plugin", "runtime"], cwd=tree, check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    return listed.splitlines()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def compiles(tree, path, text, flags):
    """Whether the compiler accepts the changed file. A mutant that it refuses is no bug."""
    done = subprocess.run(
        ["clang", "-std=gnu11", "-D_GNU_SOURCE", "-DTPS_NO_TARGET_CLONES", "-fsyntax-only", "-w",
         "-I", tree, "-I", os.path.join(tree, "plugin/include"), *flags, "-x", "c", "-"],
        input='#line 1 "%s"\n' % path + text, cwd=tree, stderr=subprocess.PIPE, text=True)
    return done.returncode == 0, done.stderr


def plant(text, mutants):
    """The source with these mutants, which do not overlap."""
    for mutant in sorted(mutants, key=lambda each: each["at"], reverse=True):
        at, end, number = mutant["at"], mutant["end"], mutant["number"]
        original = text[at:end]
        if mutant["kind"] in ("condition", "value", "return"):
            is_condition = mutant["kind"] == "condition"
            new = "(tps_mutant (%d) ? (%s) : %s(%s))" % (number, mutant["after"],
                                                       "!!" if is_condition else "", original)
        else:
            end = text.index(";", end) + 1
            new = "{ if (tps_mutant (%d)) { %s; } else { %s; } }" % (number, mutant["after"],
                                                                   original)
        text = text[:at] + new + text[end:]
    return read_switch() + text


def read_switch():
    """mutant.h on one line. It is no include, because every target would have to depend on it."""
    text = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mutant.h"))
    return " ".join(re.sub(r"^#[^\n]*|/\*.*?\*/", " ", text,
                           flags=re.MULTILINE | re.DOTALL).split()) + " "


def select(tree, path):
    flags = subprocess.run(
        ["pkg-config", "--cflags", "glib-2.0", "gobject-2.0", "json-glib-1.0", "thrift_c_glib"],
        check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    sources = {name: read(os.path.join(tree, name)) for name in list_sources(tree)
               if name.endswith(".c")}
    refused, usable, selected = 0, {}, []
    for group, pattern in GROUPS.items():
        found = [mutant for name, text in sorted(sources.items()) if re.fullmatch(pattern, name)
                 for mutant in find_mutants(name, text)]
        # Shuffled by units, so that long conditions do not get more mutants than short ones.
        draw = random.Random("%d/%s" % (SEED, group))
        units = {}
        for mutant in found:
            units.setdefault((mutant["file"], mutant["at"]), []).append(mutant)
        keys = sorted(units)
        draw.shuffle(keys)
        taken, n_drops = [], 0
        for key in keys:
            if len(taken) == N_PER_GROUP:
                break
            mutant = dict(draw.choice(units[key]), group=group)
            if mutant["change"] == DROP and n_drops == MAX_DROPS:
                continue
            if any(other["file"] == mutant["file"] and other["at"] < mutant["end"] + 1
                   and mutant["at"] < other["end"] + 1 for other in taken):
                continue
            mutant["number"] = len(selected) + len(taken) + 1
            name = mutant["file"]
            if name not in usable:
                usable[name] = compiles(tree, name, sources[name], flags)
                if not usable[name][0]:
                    print("%s: not compiled alone: %s" % (name, usable[name][1][:300]),
                          file=sys.stderr)
            if not usable[name][0]:
                continue
            if not compiles(tree, name, plant(sources[name], [mutant]), flags)[0]:
                refused += 1
                continue
            taken.append(mutant)
            n_drops += mutant["change"] == DROP
        print("%s: %d mutants of %d in %d units" % (group, len(taken), len(found), len(units)))
        selected += taken
    print("%d were refused by the compiler" % refused)
    for mutant in selected:
        mutant.update(result="not run", tests_run=0)
    write(path, {"seed": SEED, "mutants": selected})


def write(path, value):
    head = json.dumps({key: each for key, each in value.items() if key != "mutants"})[:-1]
    lines = ",\n".join("  " + json.dumps(mutant) for mutant in value["mutants"])
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write('%s, "mutants": [\n%s\n]}\n' % (head, lines))
    os.rename(path + ".new", path)


def plant_all(tree, path):
    by_file = {}
    for mutant in json.loads(read(path))["mutants"]:
        by_file.setdefault(mutant["file"], []).append(mutant)
    for name, mutants in by_file.items():
        source = os.path.join(tree, name)
        text = read(source)
        with open(source, "w", encoding="utf-8") as file:
            file.write(plant(text, mutants))
    # Statements that cannot be reached, comparisons that are always true: no errors here.
    with open(os.path.join(tree, "user.bazelrc"), "a", encoding="utf-8") as file:
        file.write("build --per_file_copt=^(%s)$@-w\n" % "|".join(map(re.escape, sorted(by_file))))
    print("%d files changed" % len(by_file))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["select", "plant"])
    parser.add_argument("tree")
    parser.add_argument("list")
    arguments = parser.parse_args()
    {"select": select, "plant": plant_all}[arguments.command](
        os.path.abspath(arguments.tree), os.path.abspath(arguments.list))


if __name__ == "__main__":
    main()

"""Generates a manual page from the output of a program's --help, which its table of options
generates.

usage: man.py PAGE PROGRAM VERSION SUMMARY

The text consists of `Usage: ...`, paragraphs, and items. An item is a line with two blanks, a name,
and two blanks or more.
"""

import re
import subprocess
import sys

ITEM = re.compile(r"^  (\S.*?)(?:  +(\S.*)|)$")


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def read_blocks(text):
    """Yields ("text", paragraph) and ("items", [(name, description)])."""
    for block in text.strip("\n").split("\n\n"):
        paragraph, items = [], []
        for line in block.split("\n"):
            item = ITEM.match(line)
            if item and not line.startswith("   "):
                items.append([item.group(1), item.group(2) or ""])
            elif items and line.startswith("   "):
                items[-1][1] = (items[-1][1] + " " + line.strip()).strip()
            else:
                if items:
                    yield "items", items
                    items = []
                paragraph.append(line)
        if items:
            yield "items", items
        if paragraph:
            yield "text", paragraph


def to_page(name, version, summary, text):
    usage, _, rest = text.partition("\n")
    page = [
        '.TH %s 1 "" "ThriftPS %s" "User Commands"' % (escape(name.upper()), escape(version)),
        ".SH NAME",
        "%s \\- %s" % (escape(name), escape(summary)),
        ".SH SYNOPSIS",
        ".B " + escape(re.sub(r"^Usage: ", "", usage)),
        ".SH DESCRIPTION",
    ]
    for kind, block in read_blocks(rest):
        if kind == "items":
            if block[0][0].startswith("--"):
                page.append(".SH OPTIONS")
            for item, description in block:
                page += [".TP", "\\fB%s\\fR" % escape(item), escape(description)]
        elif block[0].startswith("Exit status: "):
            page += [".SH EXIT STATUS", escape(" ".join(block)[len("Exit status: ") :])]
        else:
            page += [".PP", escape(" ".join(block))]
    page += [".SH SEE ALSO", "OPERATING.md in the documentation of ThriftPS"]
    return "\n".join(page) + "\n"


def main(arguments):
    path, program, version, summary = arguments
    text = subprocess.run(
        [program, "--help"], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    ).stdout
    with open(path, "w", encoding="utf-8") as file:
        file.write(to_page(program.rsplit("/", 1)[-1], version, summary, text))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The table of options in OPERATING.md must equal the server's own list.

./bazelw test //tests/lint:options_table_test ./bazelw run //tests/lint:options_table_test -- --fix
"""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MANUAL = os.path.join(ROOT, "OPERATING.md")
SERVER = "plugin/app/thriftps_server"
BEGIN = "<!-- options of thriftps_server: begin; written by tests/lint/options_table.py -->\n"
END = "<!-- options of thriftps_server: end -->\n"


def main():
    table = subprocess.run([SERVER, "--help-markdown"], stdout=subprocess.PIPE,
                           check=True).stdout.decode()
    with open(MANUAL, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    expected = before + BEGIN + table + END + after
    if text == expected:
        return 0
    if "--fix" in sys.argv:
        with open(MANUAL, "w", encoding="utf-8") as file:
            file.write(expected)
        return 0
    print("OPERATING.md: the options are not those of thriftps_server;"
          " ./bazelw run //tests/lint:options_table_test -- --fix")
    return 1


if __name__ == "__main__":
    sys.exit(main())

# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Each planted bug is found by the checker and its workload, and normal builds have none of them.

    ./bazelw test //tests/history:planted_bugs_test

With --write it prints the table of PLANTED_BUGS.md anew.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

PLANTED, NORMAL, SERVER, TABLE = (os.environ[name]
                                  for name in ("PLANTED", "NORMAL", "SERVER", "TABLE"))
BUGS = os.environ.get("BUGS", "").split()  # the names of some bugs; if empty, all bugs
SEEDS = int(os.environ.get("SEEDS", "2000"))
FOUND = re.compile(r"seed (\d+), (\d+) operations: ([a-z-]+): (.*)")
ROW = re.compile(r"^\| `([a-z-]+)` \|(.*)$", re.MULTILINE)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def listed():
    return ROW.findall(read(TABLE).decode())


def run(program, bug, seeds):
    """The exit code and the last line of the program. A crash of the program counts as a found
    bug."""
    environment = dict(os.environ)
    if bug:
        environment["TPS_PLANTED_BUG"] = bug
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, os.path.join(folder, "history"), str(seeds)],
                              env=environment, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=600)
    return done.returncode, done.stdout.decode().strip()


class PlantedBugs(unittest.TestCase):
    def test_each_is_found(self):
        names = BUGS or [name for name, _ in listed()]
        if not BUGS:
            self.assertGreaterEqual(len(names), 20)
        for name in names:
            with self.subTest(bug=name):
                code, line = run(PLANTED, name, SEEDS)
                print("%-28s %s" % (name, line), flush=True)
                self.assertEqual(code, 1, line)
                self.assertRegex(line, FOUND)

    def test_a_build_with_bugs_has_none_that_is_not_asked_for(self):
        self.assertEqual(run(PLANTED, None, 3)[0], 0)

    def test_a_normal_build_has_none(self):
        for path in (NORMAL, SERVER):
            program = read(path)
            self.assertNotIn(b"TPS_PLANTED_BUG", program)
            self.assertNotIn(b"tps_planted_bug", program)
            for name, _ in listed():
                self.assertNotIn(name.encode() + b"\0", program)
        program = read(PLANTED)
        self.assertIn(b"TPS_PLANTED_BUG", program)
        for name, _ in listed():
            self.assertIn(name.encode() + b"\0", program)

    def test_a_normal_build_does_not_listen(self):
        code, line = run(NORMAL, "push-not-remembered", 10)
        self.assertEqual(code, 0, line)


def write_table():
    for name, rest in listed():
        found = FOUND.match(run(PLANTED, name, SEEDS)[1])
        print("| `%s` | %s | %s | %s |" % (
            name, rest.split("|")[0].strip(), found[3] if found else "?",
            "{:,}".format(int(found[2])) if found else "?"), flush=True)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_table()
    else:
        unittest.main()

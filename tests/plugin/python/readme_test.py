# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The lines of README.md for users of PyTorch run unchanged, except for Bazel, the address, the
data directory and the wait for the server."""

import os
import re
import subprocess
import tempfile
import unittest

import junit

WAIT_S = 60
# Replaces the README's start command by one that ends when the server listens.
REPLACED = {
    "serve () { $server": "serve () { rm -f ready; $server",
    "& sleep 1;": "> ready & until grep -sq '^listening' ready; do kill -0 $!; done;",
    "127.0.0.1:7071": "unix:s",
    "/tmp/demo": "demo",
}


def read_lines():
    with open("README.md", encoding="utf-8") as readme:
        section = readme.read().split("\n## For users of PyTorch\n")[1].split("\n## ")[0]
    lines = "".join(re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    for old, new in REPLACED.items():
        if old not in lines:
            raise AssertionError("README.md: %r is missing" % old)
        lines = lines.replace(old, new)
    return lines


def place(folder, path):
    """Links bazel-bin/`path` in the folder to an output of Bazel."""
    link = os.path.join(folder, "bazel-bin", path)
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(os.path.abspath(path), link)


class Readme(unittest.TestCase):

    def test_a_row_survives_a_crash(self):
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        with tempfile.TemporaryDirectory() as folder:
            place(folder, os.environ["THRIFTPS_SERVER"])
            place(folder, os.environ["WHEEL"])
            # Bazel has built both before this test.
            with open(os.path.join(folder, "bazelw"), "x", encoding="utf-8") as bazelw:
                bazelw.write("#!/bin/sh\n")
            os.chmod(bazelw.name, 0o755)
            done = subprocess.run(
                ["/bin/bash", "-eo", "pipefail", "-c", read_lines() + "wait\n"],
                cwd=folder,
                env=dict(environment, HOME=folder),
                stdout=subprocess.PIPE,
                text=True,
                timeout=WAIT_S,
                check=True,
            )
        rows = re.findall(r"^\[\[.*", done.stdout, re.MULTILINE)
        self.assertRegex(rows[0], r"^\[\[-0\.0099\d+, -0\.019\d+\]\]$")
        self.assertEqual(rows[1:], rows[:1])


if __name__ == "__main__":
    junit.main()

"""The table of values that depend on the machine in OPERATING.md must have the names of the
server's own list, in its order.

./bazelw test //tests/lint:tuning_table_test
"""

import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
MANUAL = os.path.join(ROOT, "OPERATING.md")
SERVER = "plugin/app/thriftps_server"
SECTION = "### Values that depend on the machine\n"
MACHINE = ("name", "cores")
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


class TuningTable(unittest.TestCase):
    def test_has_the_names_of_the_servers_list(self):
        text = subprocess.run([SERVER, "--tuning"], stdout=subprocess.PIPE,
                              check=True).stdout.decode()
        listed = [re.split(r" {2,}", line)[0] for line in text.splitlines()]
        self.assertEqual(tuple(listed[:len(MACHINE)]), MACHINE)
        with open(MANUAL, encoding="utf-8") as file:
            section = file.read().split(SECTION)[1].split("\n### ")[0]
        self.assertEqual(ROW.findall(section), listed[len(MACHINE):])


if __name__ == "__main__":
    unittest.main()

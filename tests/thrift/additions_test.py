"""New fields and methods of the IDL reach C structs, descriptors, tables of methods, stubs and
Python without changes elsewhere: the generators run on a copy of thrift/ with additions, and the
compiler checks their output. Reads the checkout itself."""

import glob
import os
import subprocess
import tempfile
import unittest

THRIFT = os.path.abspath(os.environ["THRIFT"])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

FIELD = '  11: optional binary lookup_device (size = "16")\n'
NEW_FIELD = '  12: optional i64 uptime_ms (presence = "explicit")\n  13: list<string> labels\n'
METHOD = "service Node {\n"
TABLE_METHOD = "service EmbeddingTable {\n"
NEW_METHOD = '''  /** Finds values. */
  list<string> find(1: string name (text = "name"), 2: i32 limit (min = "0"), 3: bool all)
      throws (1: ServiceError failure) (right = "read", lane = "worker", result = "names")
'''
NEW_TABLE_METHOD = '''
  i64 count_rows(1: string table (text = "name"))
      throws (1: node.ServiceError failure) (right = "read", result = "rows")
'''
WITHOUT_FORM = '''
  i64 count_bags(1: list<BagQuery> queries)
      throws (1: node.ServiceError failure) (right = "read", result = "bags")
'''

USER = """
#include "plugin/wire/wire_node.h"
#include "plugin/client/stubs.h"

gchar **find (TpsClient *client, TpsNodeInfo *info);

gchar **
find (TpsClient *client, TpsNodeInfo *info)
{
  TpsFindArguments arguments = { .name = info->labels[0], .limit = 1, .all = info->has_uptime_ms };

  return tps_remote_find (client, &arguments, info->uptime_ms, NULL);
}
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Additions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chdir(ROOT)

    def write_contract(self, table_method):
        """Writes the IDL with additions, and its JSON, into the folder."""
        additions = {"thrift/node.thrift": ((FIELD, NEW_FIELD), (METHOD, NEW_METHOD)),
                     "thrift/embedding_table.thrift": ((TABLE_METHOD, table_method),)}
        for path in glob.glob("thrift/*.thrift"):
            text = read(path)
            for place, addition in additions.get(path, ()):
                self.assertIn(place, text)
                text = text.replace(place, place + addition)
            write(os.path.join(self.folder, os.path.basename(path)), text)
        for path in glob.glob(os.path.join(self.folder, "*.thrift")):
            subprocess.run([THRIFT, "--gen", "json", "-out", self.folder, path], check=True)

    def run_generator(self, path, *outputs, **options):
        """Runs a generator, with its outputs in the places of the tree. Returns their texts."""
        made = [os.path.join(self.folder, os.path.dirname(path), each) for each in outputs]
        for each in made:
            os.makedirs(os.path.dirname(each), exist_ok=True)
        environment = dict(os.environ, PYTHONPATH="thrift:plugin/wire", PYTHONDONTWRITEBYTECODE="1")
        files = sorted(glob.glob(os.path.join(self.folder, "*.json")))
        subprocess.run(["/usr/bin/python3", path, *made, *files], check=True, env=environment,
                       **options)
        return [read(each) for each in made if os.path.isfile(each)]

    def compile(self, path):
        flags = subprocess.run(["pkg-config", "--cflags", "glib-2.0"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split()
        subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-fsyntax-only",
                        "-iquote", self.folder, "-iquote", ".", "-Iplugin/include", *flags,
                        path], check=True)

    def test_additions_need_no_other_change(self):
        self.write_contract(NEW_TABLE_METHOD)
        self.run_generator("plugin/wire/wire.py", ".")
        methods, = self.run_generator("plugin/service/methods.py", "methods.h")
        self.run_generator("plugin/client/stubs.py", "stubs.h", "stubs.c")
        native = self.run_generator("plugin/python/native/flat_functions.py", "flat_functions.h",
                                    "flat_functions.c", "_methods.py")
        write(os.path.join(self.folder, "user.c"), USER)
        for path in ("plugin/wire/wire_node.c", "plugin/client/stubs.c",
                     "plugin/python/native/flat_functions.c", "user.c"):
            self.compile(os.path.join(self.folder, path))
        row = "{ TPS_RIGHT_READ, &tps_find_rpc, prefix##find, TPS_METHOD_ON_WORKER }"
        self.assertIn(row, methods)
        self.assertIn('"find": (("name", "text"), ("limit", "i32"), ("all", "flag"),)', native[2])
        self.assertIn('"count_rows": (("table", "text"),)', native[2])

    def test_an_argument_without_a_form_in_python_is_refused(self):
        self.write_contract(WITHOUT_FORM)
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            self.run_generator("plugin/python/native/flat_functions.py", "flat_functions.h",
                               "flat_functions.c", "_methods.py", text=True,
                               stderr=subprocess.PIPE)
        self.assertIn("EmbeddingTable.count_bags: its argument queries has no form in Python: add "
                      "that of a list of BagQuery to the tables", raised.exception.stderr)


if __name__ == "__main__":
    unittest.main()

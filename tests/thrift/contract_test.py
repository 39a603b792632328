"""The annotations of the IDL, and the checks of the module that reads it (thrift/contract.py)."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, "thrift")

from contract import Contract  # noqa: E402

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FIELD = re.compile(r"\b\d+:\s*(?:required\s+|optional\s+)?(?:list<)?([\w.]+)>?\s+(\w+)"
                   r"(?:\s*\(([^)]*)\))?")

HEAD = "exception ServiceError { 1: i32 code }\nenum Colour { RED = 1 }\n"
THROWS = " throws (1: ServiceError failure) "


def read_idl():
    for path in sorted(glob.glob("thrift/*.thrift")):
        with open(path, encoding="utf-8") as file:
            yield path, COMMENT.sub("", file.read())


def parse(idl):
    """The contract of a text of the IDL, as the compiler and contract.py read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "made.thrift")
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEAD + idl)
        subprocess.run([os.environ["THRIFT"], "--gen", "json", "-out", folder, path], check=True)
        return Contract([path.replace(".thrift", ".json")])


class Annotations(unittest.TestCase):
    def test_every_field_of_an_enum_type_names_it(self):
        contract = Contract(glob.glob("thrift/*.json"))
        found = []
        for path, code in read_idl():
            for kind, name, annotations in FIELD.findall(code):
                kind = kind.rpartition(".")[2]
                if kind in contract.enums:
                    found.append(name)
                    self.assertIn('enum_type = "%s"' % kind, annotations, "%s: %s" % (path, name))
        self.assertGreater(len(found), 10)
        named = [each for struct in contract.structs.values() for each in struct.fields]
        named += [each for method in contract.methods for each in method.arguments]
        self.assertEqual(len([each for each in named if each.type.id == "enum"]), len(found))

    def test_contract(self):
        contract = Contract(glob.glob("thrift/*.json"))
        methods = {each.key: each for each in contract.methods}
        assign = methods["EmbeddingTable.assign_rows"]
        self.assertEqual((assign.right, assign.lane), ("push", "inline"))
        self.assertEqual([each.name for each in assign.arguments],
                         ["table", "indices", "values", "lsn", "push"])
        self.assertEqual(assign.arguments[3].annotations, {"min": "0", "presence": "optional"})
        names = methods["Node.describe"].result
        self.assertEqual((names.id, names.name), ("struct", "NodeInfo"))
        self.assertTrue(contract.enums["ErrorCode"].is_open)
        self.assertEqual(contract.enums["Pooling"].values, [("SUM", 1), ("MEAN", 2), ("MAX", 3)])


class Refusals(unittest.TestCase):
    def refuse(self, idl, text):
        with self.assertRaisesRegex(ValueError, text):
            parse(idl)

    def test_correct_idl_is_accepted(self):
        contract = parse('struct Paint { 1: Colour colour (enum_type = "Colour") }\n'
                         'service S { Paint mix(1: list<Paint> of)' + THROWS
                         + '(right = "read", result = "paint") }')
        self.assertEqual(contract.methods[0].arguments[0].type.elem.name, "Paint")
        self.assertEqual(contract.structs["Paint"].fields[0].type.name, "Colour")

    def test_methods(self):
        self.refuse("service S { void f()" + THROWS + "}", "S.f needs the annotation right")
        self.refuse("service S { void f()" + THROWS + '(right = "all") }',
                    "S.f needs the annotation right")
        self.refuse("service S { void f()" + THROWS + '(right = "read", lane = "fast") }',
                    "S.f: its lane must be")
        self.refuse('service S { void f() (right = "read") }', "S.f needs `throws")
        self.refuse("service S { i32 f()" + THROWS + '(right = "read") }',
                    "S.f needs the annotation result")
        self.refuse("service S { void f()" + THROWS + '(right = "read", result = "x") }',
                    "S.f is void")
        method = "{ void f()" + THROWS + '(right = "read") }\n'
        self.refuse("service S " + method + "service T " + method,
                    "S.f and T.f have one name in C, tps_f_rpc")
        self.refuse("service S { void f()" + THROWS + '(rigth = "read") }', "annotation rigth")

    def test_fields(self):
        self.refuse('struct A { 1: i32 a (least = "0") }', "A.a: unknown annotation least")
        self.refuse('struct A { 1: Colour a (enum_type = "Color") }', "there is no enum Color")
        self.refuse("struct A { 1: map<string,i32> a }", "maps other than")


if __name__ == "__main__":
    unittest.main()

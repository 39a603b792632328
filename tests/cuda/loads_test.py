"""The loads of kernels in their PTX. Kernels that are bound by memory must load several values at
once and have several loads in flight. PTX shows that without a GPU, but not the speed.

Arguments: the files that cuda_library calls NAME_ptx.
"""

import re
import subprocess
import sys
import unittest

ENTRY = re.compile(r"\.entry (\w+)\(")
LOAD = re.compile(r"\bld\.global(?:\.\w+)*?(?P<wide>\.v[24])?\.[a-z](?P<bits>\d+)\s+"
                  r"(?P<to>[^,{]+|{[^}]*})")
STORE = re.compile(r"\bst\.global")
REGISTER = re.compile(r"%\w+")


def read_kernels(text):
    """Yields (kernel, its lines)."""
    kernel, lines = None, []
    for line in text.splitlines():
        match = ENTRY.search(line)
        if match:
            kernel, lines = match.group(1), []
        elif line.startswith("}") and kernel:
            yield kernel, lines
            kernel = None
        else:
            lines.append(line)


def most_in_flight(lines):
    """The greatest number of wide loads of which no value is used before the last one is issued."""
    loaded, n, most = set(), 0, 0
    for line in lines:
        match = LOAD.search(line)
        used = set(REGISTER.findall(line))
        if match:
            used -= set(REGISTER.findall(match.group("to")))
        if used & loaded or STORE.search(line):
            loaded, n = set(), 0
        if match and match.group("wide"):
            loaded |= set(REGISTER.findall(match.group("to")))
            n += 1
            most = max(most, n)
    return most


def places_before_values(lines):
    """The number of 64-bit loads before the first wide load."""
    n = 0
    for line in lines:
        match = LOAD.search(line)
        if match and match.group("wide"):
            break
        n += bool(match and match.group("bits") == "64")
    return n


def n_narrow(lines, bits):
    """The number of loads of one value of `bits` bits."""
    matches = [LOAD.search(line) for line in lines]
    return sum(1 for m in matches if m and not m.group("wide") and int(m.group("bits")) == bits)


def plain_names(kernels):
    named = subprocess.run(["c++filt"], input="\n".join(kernels), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return [re.sub(r"\(anonymous namespace\)::|tps::", "", name) for name in named]


# The number of wide loads that each kernel must have in flight. A thread of `each` handles two
# items.
IN_FLIGHT = [
    (r"\bAdd<\w+, 4>", 4),
    (r"\bScale<\w+, \w+, 4>", 2),
    (r"\bScaleAdd<\w+, \w+, 4>", 4),
    (r"\bCast<\w+, \w+, 4>", 2),
    (r"\bDivide<\w+, \w+, 4>", 2),
    (r"\bBias<4>", 4),
    (r"\bRelu<4>", 2),
    (r"\bReluBackward<4>", 4),
    (r"\bL1Part<4>", 8),
    (r"\bGather<\w+, 4>", 4),
    (r"\bPool<\w+, 4>", 4),
    (r"\bChunks<Tree<4, \w+<", 4),
    (r"\bUpdateRows<0, 4,", 4),
    (r"\bUpdateRows<1, 4,", 6),
    (r"\bUpdateRows<2, 4,", 8),
    (r"\bRowwiseAdagrad<4,", 4),
]

# Kernels that read half floats in groups of four.
HALVES = (r"\b(Add|Scale|ScaleAdd|Cast|Divide|Gather|Pool|Max)<[^<>]*\bB?Float16\b[^<>]*, 4>"
          r"|\bUpdateRows<\d, 4, .*\bB?Float16\b|\bRowwiseAdagrad<4, .*\bB?Float16\b")


class Loads(unittest.TestCase):
    PATHS = ()
    KERNELS = {}

    @classmethod
    def setUpClass(cls):
        for path in cls.PATHS:
            with open(path, encoding="utf-8") as file:
                kernels = list(read_kernels(file.read()))
            names = plain_names([kernel for kernel, _ in kernels])
            cls.KERNELS.update(zip(names, (lines for _, lines in kernels)))

    def matching(self, pattern):
        found = {name: lines for name, lines in self.KERNELS.items() if re.search(pattern, name)}
        self.assertTrue(found, pattern)
        return found.items()

    def test_ptx_is_understood(self):
        text = (".visible .entry _Z1kv(\n)\n{\n"
                "\tld.global.u64 \t%rd1, [%rd9];\n"
                "\tld.global.v4.f32 \t{%f1, %f2, %f3, %f4}, [%rd1];\n"
                "\tld.global.v4.u16 \t{%rs1, %rs2, %rs3, %rs4}, [%rd2+8];\n"
                "\tadd.f32 \t%f9, %f1, %f2;\n"
                "\tld.global.nc.v2.f64 \t{%fd1, %fd2}, [%rd3];\n"
                "\tld.global.u16 \t%rs7, [%rd2];\n"
                "}\n")
        [(kernel, lines)] = read_kernels(text)
        self.assertEqual(kernel, "_Z1kv")
        self.assertEqual(most_in_flight(lines), 2)
        self.assertEqual(places_before_values(lines), 1)
        self.assertEqual((n_narrow(lines, 16), n_narrow(lines, 64)), (1, 1))

    def test_wide_loads_are_in_flight_together(self):
        for pattern, wanted in IN_FLIGHT:
            for name, lines in self.matching(pattern):
                with self.subTest(name):
                    self.assertGreaterEqual(most_in_flight(lines), wanted)

    def test_optimizers_read_the_places_of_all_rows_before_values(self):
        # Besides the values, these load the number of rows and the indices of two rows.
        for name, lines in self.matching(r"\b(UpdateRows<\d, 4,|RowwiseAdagrad<4,)"):
            with self.subTest(name):
                self.assertGreaterEqual(places_before_values(lines), 3)

    def test_half_floats_are_not_loaded_one_by_one(self):
        for name, lines in self.matching(HALVES):
            with self.subTest(name):
                self.assertEqual(n_narrow(lines, 16), 0)


if __name__ == "__main__":
    Loads.PATHS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)

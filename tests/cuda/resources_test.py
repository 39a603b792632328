"""The resources of each kernel as ptxas reports them: no register may spill, and registers
and shared memory must leave room for several blocks on a processor. Prints the table.

Arguments: the files that cuda_library calls NAME_resources.
"""

import os
import re
import subprocess
import sys
import unittest

KERNEL = re.compile(r"Compiling entry function '(\S+)' for '(sm_\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def read_resources(text):
    """Yields (kernel, generation, registers, stack bytes, spilled bytes, shared bytes)."""
    kernel = generation = None
    stack = spilled = 0
    for line in text.splitlines():
        match = KERNEL.search(line)
        if match:
            kernel, generation = match.groups()
        match = SPILLS.search(line)
        if match:
            stack, stores, loads = (int(number) for number in match.groups())
            spilled = stores + loads
        match = REGISTERS.search(line)
        if match and kernel:
            shared = SHARED.search(line)
            yield (kernel, generation, int(match.group(1)), stack, spilled,
                   int(shared.group(1)) if shared else 0)
            kernel = None


def short_name(kernel):
    """The plain name of the kernel instead of the mangled one."""
    named = subprocess.run(["c++filt", kernel], capture_output=True, text=True,
                           check=False).stdout.strip() or kernel
    named = named.replace("(anonymous namespace)::", "").replace("tps::", "")
    return re.sub(r"^void |\(.*$|_INTERNAL_[0-9a-f_]+", "", named)[:70]


def source_of(path):
    return os.path.basename(path)[: -len(".resources.txt")]


def rows_of(paths):
    for path in sorted(paths):
        source = source_of(path)
        with open(path, encoding="utf-8") as report:
            for row in read_resources(report.read()):
                yield (source,) + row


# The kernels are tuned for sm_90, where no kernel may spill. For other generations, a kernel may
# keep two registers on the stack around the subroutine that divides 64-bit numbers. This may happen
# in any number of places, because only arrays of more than 2^32 elements use the subroutine.
MAX_SPILLED_BYTES_OF_SM_90 = 0
MAX_STACK_BYTES_ELSEWHERE = 8


def spills_too_much(row):
    _, _, generation, _, stack, spilled, _ = row
    if generation == "sm_90":
        return spilled > MAX_SPILLED_BYTES_OF_SM_90
    return stack > MAX_STACK_BYTES_ELSEWHERE


# A multiprocessor with 65,536 registers must hold four blocks of 256 threads. On other generations,
# three blocks are enough.
MAX_REGISTERS = {"sm_90": 64}
MAX_REGISTERS_ELSEWHERE = 80


def occupies_too_much(row):
    _, _, generation, registers, _, _, shared = row
    return registers > MAX_REGISTERS.get(generation, MAX_REGISTERS_ELSEWHERE) or shared > 0


class Resources(unittest.TestCase):
    PATHS = ()

    def test_report_is_understood(self):
        text = ("ptxas info    : Compiling entry function '_Z1kv' for 'sm_90'\n"
                "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
                "ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem\n")
        self.assertEqual(list(read_resources(text)), [("_Z1kv", "sm_90", 40, 8, 16, 512)])

    def test_no_kernel_of_ours_spills_or_fills_a_processor(self):
        rows = list(rows_of(self.PATHS))
        for source, kernel, generation, registers, stack, spilled, shared in rows:
            print("%-20s %-6s %3d registers %4d stack %4d spilled %5d shared  %s"
                  % (source, generation, registers, stack, spilled, shared, short_name(kernel)))
        # primitives.cu contains CUB's kernels.
        ours = [row for row in rows if row[0] != "primitives"]
        self.assertEqual([row for row in ours if spills_too_much(row)], [])
        self.assertEqual([row for row in ours if occupies_too_much(row)], [])

    def test_every_source_has_kernels(self):
        sources = {source_of(path) for path in self.PATHS}
        self.assertGreater(len(sources), 10)
        self.assertEqual({row[0] for row in rows_of(self.PATHS)}, sources)


if __name__ == "__main__":
    Resources.PATHS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)

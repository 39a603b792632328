# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""FBGEMM's wheel for the CPU: preloading, instruction set and version. For fbgemm_tbe.py and
torchrec_dlrm.py.

FBGEMM chooses its kernels by the copy of cpuinfo in libc10.so. The wheels never initialise this
copy, so FBGEMM runs scalar code without a message. If libc10.so is loaded before all other
libraries, PyTorch uses the same copy and initialises it. preload() therefore restarts the script
with LD_PRELOAD. It must be called before PyTorch is imported.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import sys

# fbgemm::inst_set_t
INSTRUCTION_SETS = ("scalar code", "AVX2", "AVX-512", "AVX-512 with 256-bit registers",
                    "AVX-512 VNNI", "AVX-512 VNNI with 256-bit registers", "SVE", "SVE2")


def find_folder(package):
    """Returns the folder of a package without importing it. If there is no such package, the script
    prints "skip REASON" and ends.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        print("skip %s has no %s" % (sys.executable, package), flush=True)
        sys.exit(0)
    return os.path.dirname(found.origin)


def preload():
    """Restarts the script, unless libc10.so has been loaded first or does not exist."""
    library = os.path.join(find_folder("torch"), "lib", "libc10.so")
    loaded = os.environ.get("LD_PRELOAD", "").split(":")
    if library not in loaded and os.path.exists(library):
        os.environ["LD_PRELOAD"] = ":".join([library] + [path for path in loaded if path])
        os.execv(sys.executable, [sys.executable] + sys.argv)


def find_instruction_set():
    try:
        library = ctypes.CDLL(os.path.join(find_folder("fbgemm_gpu"), "fbgemm.so"))
        return INSTRUCTION_SETS[library._ZN6fbgemm20fbgemmInstructionSetEv()]
    except (AttributeError, IndexError, OSError):
        return "an unknown instruction set"


def find_version():
    for name in ("fbgemm-gpu-cpu", "fbgemm-gpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return "of an unknown version"

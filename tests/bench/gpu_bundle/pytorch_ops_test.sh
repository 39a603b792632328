#!/bin/bash
# pytorch_ops.py with a fake of PyTorch that kills the process at the third operation.
set -u
program=$PWD/$1
failed=0

expect () {  # DESCRIPTION CONDITION...
  local description=$1
  shift
  "$@" || { echo "FAILED: $description"; failed=1; }
}

mkdir -p "$TEST_TMPDIR/torch"
cat >"$TEST_TMPDIR/torch/__init__.py" <<'EOF'
import os, signal, types

__version__ = "fake"
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace()))
cuda = types.SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "fake")
nn = types.SimpleNamespace(functional=None)
calls = 0


def Generator(device):
    global calls
    calls += 1
    if calls == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("no generator")
EOF
PYTHONPATH=$TEST_TMPDIR /usr/bin/python3 "$program" >"$TEST_TMPDIR/table" 2>/dev/null
expect 'the process is killed' [ $? -eq 137 ]
expect 'the lines until then are kept' [ "$(grep -c 'no generator' "$TEST_TMPDIR/table")" -eq 2 ]

exit "$failed"

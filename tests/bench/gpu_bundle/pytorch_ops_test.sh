#!/bin/bash
# pytorch_ops.py with a fake of PyTorch, which has no memory for arrays above 256 MiB and kills the
# process at its third operation. In a second run, a CUDA error terminates the program at its second
# operation.
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


class Generator:
    def __init__(self, device):
        pass

    def manual_seed(self, seed):
        return self


def rand(n_elems, device, generator):
    global calls
    if n_elems > 256 << 18:
        raise RuntimeError("CUDA out of memory")
    calls += 1
    if calls == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("no numbers")
EOF
printf '%-28s %10s\n' 'operation,      384 MiB' GB/s 'gather, dim 64' 2000.5 >"$TEST_TMPDIR/ours"
PYTHONPATH=$TEST_TMPDIR /usr/bin/python3 "$program" --beside="$TEST_TMPDIR/ours" >"$TEST_TMPDIR/table" 2>/dev/null
expect 'the process is killed' [ $? -eq 137 ]
expect 'the lines until then are kept' [ "$(grep -c 'no numbers' "$TEST_TMPDIR/table")" -eq 2 ]
sed -i 's/if calls == 4:/if calls == 3 and os.environ.get("LOST"):\n        raise RuntimeError("CUDA error: an illegal access")\n    &/' \
  "$TEST_TMPDIR/torch/__init__.py"
LOST=1 PYTHONPATH=$TEST_TMPDIR /usr/bin/python3 "$program" --mib=1 >"$TEST_TMPDIR/lost"
expect 'an error of CUDA ends the process' [ $? -eq 1 ]
expect 'and its reason is in the last line' grep -q 'CUDA error: an illegal access$' <(tail -n 1 "$TEST_TMPDIR/lost")
expect 'another process continues' grep -q '^accumulate float16  ' <(LOST=1 PYTHONPATH=$TEST_TMPDIR \
  /usr/bin/python3 "$program" --mib=1 --skip=2 | sed -n 3p)
expect 'the operations are listed without PyTorch' \
  grep -q '^row-wise adagrad, dim 64$' <(/usr/bin/python3 "$program" --list)
expect 'arrays have half the size of ours, because memory is short' grep -q '^operation, *192 MiB ' "$TEST_TMPDIR/table"

exit "$failed"

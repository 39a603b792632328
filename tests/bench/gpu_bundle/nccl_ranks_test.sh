#!/bin/bash
# nccl_ranks alone, on stand-ins for CUDA and NCCL (LD_LIBRARY_PATH, THRIFTPS_CUDA_LIBRARY), and
# where there is no device.
set -u
program=$1
failed=0

expect () {  # WHAT CONDITION...
  local what=$1
  shift
  "$@" || { echo "FAILED: $what"; failed=1; }
}

said=$("$program" --store="$TEST_TMPDIR")
expect 'one rank finds all right' [ $? -eq 0 ]
expect 'sums in both memories, averages, gathers, in five sizes' [ "$(grep -c ' right$' <<<"$said")" -eq 20 ]
expect 'and a time' grep -q 'sum of 25 MiB on the device' <<<"$said"

line=$(THRIFTPS_CUDA_LIBRARY=none "$program" --rank=1 --size=2 --store="$TEST_TMPDIR" 2>&1)
expect 'no device is exit code 3' [ $? -eq 3 ]
expect 'and one line that says why' [ "$line" = 'nccl_ranks: cuda: none: turned off' ]

"$program" --rank=2 --size=2 2>/dev/null
expect 'bad flags are exit code 2' [ $? -eq 2 ]

exit "$failed"

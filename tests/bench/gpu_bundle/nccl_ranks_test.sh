#!/bin/bash
# nccl_ranks by itself, on fakes of CUDA and NCCL (LD_LIBRARY_PATH, THRIFTPS_CUDA_LIBRARY), and on a
# machine without a device.
set -u
program=$1
failed=0

expect () {  # DESCRIPTION CONDITION...
  local description=$1
  shift
  "$@" || { echo "FAILED: $description"; failed=1; }
}

said=$("$program" --store="$TEST_TMPDIR")
expect 'all results of one rank are correct' [ $? -eq 0 ]
expect 'sums in both memories, averages, gathers, in five sizes' [ "$(grep -c ' right$' <<<"$said")" -eq 20 ]
expect 'and a time' grep -q 'sum of 25 MiB on the device' <<<"$said"

line=$(THRIFTPS_CUDA_LIBRARY=none "$program" --rank=1 --size=2 --store="$TEST_TMPDIR" 2>&1)
expect 'no device is exit code 3' [ $? -eq 3 ]
expect 'and one line with the reason' [ "$line" = 'nccl_ranks: cuda: none: turned off' ]

"$program" --rank=2 --size=2 2>/dev/null
expect 'bad flags are exit code 2' [ $? -eq 2 ]

exit "$failed"

#!/bin/bash
# The bundle, unpacked somewhere else, on a machine without a GPU: small enough, and it says why it does nothing. Where there
# is a GPU this test has nothing to say.
set -u
bundle=$PWD/$1
failed=0

expect () {  # WHAT CONDITION...
  local what=$1
  shift
  "$@" || { echo "FAILED: $what"; failed=1; }
}

cd "$TEST_TMPDIR" || exit 1
tar -xf "$bundle" || exit 1
expect 'at most 40 MiB' [ "$(du -sk thriftps_gpu | cut -f1)" -le 40960 ]

if [ -e /dev/nvidiactl ]; then
  echo 'a GPU: run thriftps_gpu/run_all.sh'
  exit "$failed"
fi

said=$(env -i PATH=/usr/bin:/bin thriftps_gpu/run_all.sh all)
expect 'skipping is no failure' [ $? -eq 0 ]
for stage in conformance sanitizer huge_arrays device_ops; do
  expect "$stage is skipped with the reason" grep -q "^$stage .* skipped .*cuda: none: no driver" <<<"$said"
done
thriftps_gpu/run_all.sh nonsense >/dev/null 2>&1
expect 'an unknown stage is refused' [ $? -eq 2 ]

exit "$failed"

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
for stage in conformance sanitizer huge_arrays device_ops nccl pytorch parameter_server; do
  expect "$stage is skipped with the reason" grep -q "^$stage .* skipped .*cuda: none: no driver" <<<"$said"
done

# As if there were a GPU, to see the stages that can be run as far as their reasons.
sed -i 's/^reason=.*/reason=/' thriftps_gpu/run_all.sh
said=$(env -i PATH=/usr/bin:/bin THRIFTPS_PYTHON=/bin/false thriftps_gpu/run_all.sh nccl 2>&1)
expect 'ranks without a device are skipped, both ways' [ "$(grep -c '^nccl .* skipped .*cuda: none: no driver' <<<"$said")" -eq 2 ]
said=$(env -i PATH=/usr/bin:/bin THRIFTPS_PYTHON=/nonexistent/python thriftps_gpu/run_all.sh parameter_server 2>&1)
expect 'a CPU server needs no GPU' grep -q '^parameter_server CPU server .* passed' <<<"$said"
expect 'a CUDA server is refused with the reason' grep -q 'no CUDA device; use --nserver (cuda: none: no driver' <<<"$said"
expect 'without PyTorch there is no peer' grep -q 'beside PyTorch .* skipped .*no PyTorch' <<<"$said"

thriftps_gpu/run_all.sh nonsense >/dev/null 2>&1
expect 'an unknown stage is refused' [ $? -eq 2 ]

exit "$failed"

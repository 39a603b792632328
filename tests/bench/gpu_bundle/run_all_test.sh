#!/bin/bash
# The bundle, unpacked somewhere else, on a machine without a GPU: small enough, and it says why it does nothing. Where there
# is a GPU this test has nothing to say.
set -u
bundle=$PWD/$1 fake=$PWD/$2 driver=$(dirname "$PWD/$3")
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

said=$(env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin thriftps_gpu/run_all.sh all)
expect 'skipping is no failure' [ $? -eq 0 ]
for stage in conformance sanitizer huge_arrays device_ops pytorch nccl cuda_ipc tables parameter_server ddp_rpc cuda_rpc; do
  expect "$stage is skipped with the reason" grep -q "^$stage .* skipped .*cuda: none: no driver" <<<"$said"
done

# As if there were a GPU, to see the stages that can be run as far as their reasons.
sed -i 's/^reason=.*/reason=/' thriftps_gpu/run_all.sh
said=$(env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin THRIFTPS_PYTHON=/bin/false thriftps_gpu/run_all.sh nccl 2>&1)
expect 'ranks without a device are skipped, both ways' [ "$(grep -c '^nccl .* skipped .*cuda: none: no driver' <<<"$said")" -eq 2 ]
said=$(env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin thriftps_gpu/run_all.sh parameter_server 2>&1)
expect 'what is on the CPU needs no GPU' grep -q '^parameter_server *CPU only .* passed .*a batch in .* ms' <<<"$said"
expect 'a CUDA server is refused with the reason' grep -q 'no CUDA device; use --nserver (cuda: none: no driver' <<<"$said"
said=$(env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin THRIFTPS_PYTHON=/nonexistent/python thriftps_gpu/run_all.sh cuda_rpc 2>&1)
expect 'without PyTorch there is no peer' grep -q '^cuda_rpc .* skipped .*no PyTorch' <<<"$said"
said=$(env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin THRIFTPS_PYTHON=/usr/bin/python3 thriftps_gpu/run_all.sh cuda_rpc 2>&1)
expect "PyTorch's reason is told" grep -q '^cuda_rpc .* skipped .*peer pytorch: PyTorch .* finds no GPU' <<<"$said"

# With a device that stands in for the GPU, and computes as the CPU does.
cp "$fake" thriftps_gpu/libtps_cuda.so
said=$(env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin LD_LIBRARY_PATH="$driver" \
  thriftps_gpu/run_all.sh conformance device_ops cuda_ipc tables parameter_server ddp_rpc 2>&1)
status=$?
expect 'every stage passes on a device that works' [ "$status" -eq 0 ]
expect 'and each part of it' [ "$(grep -c -E ' (failed|skipped) ' <<<"$said")" -eq 0 ]
expect 'CUDA trainers are measured' grep -q '^parameter_server *CUDA trainers, server .* passed .*a batch in .* ms' <<<"$said"
expect 'tables on the device are measured' grep -q '^ddp_rpc *CUDA trainers, tables .* passed .*an epoch in .* ms' <<<"$said"
expect 'memory is shared between processes' grep -q '^cuda_ipc *two processes .* passed' <<<"$said"
[ "$failed" -eq 0 ] || tail -n 60 <<<"$said"

thriftps_gpu/run_all.sh nonsense >/dev/null 2>&1
expect 'an unknown stage is refused' [ $? -eq 2 ]

exit "$failed"

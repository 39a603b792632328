#!/bin/bash
# The bundle, unpacked in another folder, on a machine without a GPU. It must be small, and must
# print the reason why it runs nothing. On a machine with a GPU, the test checks nothing. On a
# machine that permits no new root directory, it checks less, and fails if EMPTY_ROOT is "required".
set -u
bundle=$PWD/$1 fake=$PWD/$2 driver=$(dirname "$PWD/$3")
failed=0

expect () {  # DESCRIPTION CONDITION...
  local description=$1
  shift
  "$@" || { echo "FAILED: $description"; failed=1; }
}

run_all () {  # VARIABLE=VALUE... -- ARGUMENT...
  local variables=()
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  env -i THRIFTPS_SMOKE=1 PATH=/usr/bin:/bin "${variables[@]}" thriftps_gpu/run_all.sh "$@"
}

cd "$TEST_TMPDIR" || exit 1
tar -xf "$bundle" || exit 1
expect 'at most 40 MiB' [ "$(du -sk thriftps_gpu | cut -f1)" -le 40960 ]

if [ -e /dev/nvidiactl ]; then
  echo 'a GPU: run thriftps_gpu/run_all.sh'
  exit "$failed"
fi

said=$(run_all -- --out=none all)
expect 'skipping is no failure' [ $? -eq 0 ]
for part in identity conformance tables cuda_ipc huge_arrays device_ops pytorch nccl \
  parameter_server ddp_rpc cuda_rpc lookup sanitizer profile; do
  expect "$part is skipped with the reason" grep -q "^$part .* skipped .*cuda: none: no driver" <<<"$said"
done
expect 'results are in the folder that was named' [ "$(grep -c skipped none/results.txt)" -eq 14 ]

expect 'OpenBLAS, which programs load, is in the bundle' \
  grep -q '^lib/libopenblas.so.0$' <(tar -tzf thriftps_gpu/files.tar.gz)

# Makes a root folder without files of this tree: a shell, the script's tools and their libraries.
make_root () {  # FOLDER
  local tool file
  mkdir -p "$1/tmp" "$1/proc" "$1/dev" "$1/bin"
  touch "$1/dev/null"  # a server opens it
  for tool in bash env tar gzip mktemp rm mv cat tee timeout sed grep head tail sort paste wc dirname readlink mkdir date \
    uname ls nproc; do
    tool=$(PATH=/usr/bin:/bin command -v "$tool") || continue
    cp -L "$tool" "$1/bin/"
    ldd "$tool" | grep -o '/[^ ]*' | while read -r file; do
      mkdir -p "$1$(dirname "$file")"
      cp -L "$file" "$1$file"
    done
  done
  # These libraries come with every C library and compiler.
  for file in libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libc.so.6; do
    mkdir -p "$1/lib/x86_64-linux-gnu"
    cp -L "/lib/x86_64-linux-gnu/$file" "$1/lib/x86_64-linux-gnu/" 2>/dev/null
  done
}

make_root empty
cp -r thriftps_gpu empty/
if unshare --user --map-root-user /usr/sbin/chroot empty /bin/bash -c :; then
  expect 'the root has no GLib' [ -z "$(find empty -name 'libglib*')" ]
  said=$(unshare --user --map-root-user /usr/sbin/chroot empty /bin/env -i PATH=/bin /thriftps_gpu/run_all.sh --out=/out all 2>&1)
  expect 'nothing but this folder is needed' [ $? -eq 0 ]
  expect 'every part ends with the right reason' \
    [ "$(grep -c ' skipped .*cuda: none: no driver' <<<"$said")" -eq 14 ]
  expect 'and says nothing else' [ "$(wc -l <<<"$said")" -eq 14 ]
  # Every program must start in this root, so none may need GLib or Thrift of the machine.
  tar -C empty/thriftps_gpu -xzf thriftps_gpu/files.tar.gz
  n_programs=0
  for program in empty/thriftps_gpu/bin/*; do
    [ -f "$program" ] && [ "${program%.py}" = "$program" ] || continue
    name=$(basename "$program") flags=() reason='cuda: none: no driver'
    case $name in
      ddp_rpc) flags=(--smoke --trainer-device=cuda) ;;
      parameter_server) flags=(--smoke --ncudaserver=1) ;;
      lookup) flags=(--smoke --only=local --device=cuda:0) ;;
      thriftps_server) flags=(--device=cuda:0) ;;
      huge_arrays) reason='^SKIPPED: CUDA driver version is insufficient' ;;
      *_on_gpu_test) flags=(--gtest_brief=1) ;;
    esac
    line=$(unshare --user --map-root-user /usr/sbin/chroot empty /bin/env -i PATH=/bin \
      LD_LIBRARY_PATH=/thriftps_gpu/lib THRIFTPS_CUDA_LIBRARY=/thriftps_gpu/libtps_cuda.so CONFORMANCE_DEVICES=cuda? \
      DEVICE_MAY_BE_MISSING=1 timeout 60 "/thriftps_gpu/bin/$name" "${flags[@]}" 2>&1 |
      grep -e "$reason" -e 'error while loading' | tail -n 1)
    expect "$name ends because there is no GPU" grep -q -e "$reason" <<<"$line"
    n_programs=$((n_programs + 1))
  done
  expect 'those are all programs' [ "$n_programs" -eq 15 ]
  [ "$failed" -eq 0 ] || printf '%s\n' "$said"
else
  echo 'no new root may be made here: that part is not checked'
  expect 'the check in an empty root is not required' [ "${EMPTY_ROOT:-}" != required ]
fi

# Unpacks the files, so that this test can replace some of them.
unpack () {
  tar -C thriftps_gpu -xzf thriftps_gpu/files.tar.gz
}

unpack
# Pretends that there is a GPU, so that the parts run without one until they are skipped.
sed -i 's/^reason=.*/reason=/' thriftps_gpu/run_all.sh
said=$(run_all THRIFTPS_PYTHON=/bin/false -- nccl 2>&1)
expect 'ranks without a device are skipped, both ways' [ "$(grep -c '^nccl .* skipped .*cuda: none: no driver' <<<"$said")" -eq 2 ]
said=$(run_all -- parameter_server 2>&1)
expect 'the parts on the CPU need no GPU' grep -q '^parameter_server *CPU only .* passed .*a batch in .* ms' <<<"$said"
said=$(run_all THRIFTPS_PYTHON=/nonexistent/python -- cuda_rpc 2>&1)
expect 'without Python there is no peer' grep -q '^cuda_rpc .* skipped .*no python3' <<<"$said"
said=$(run_all THRIFTPS_PYTHON=/usr/bin/python3 -- cuda_rpc 2>&1)
expect "PyTorch's reason is printed" grep -q -E '^cuda_rpc .* skipped .*(peer pytorch: PyTorch .* finds no GPU|no PyTorch)' <<<"$said"

# Replaces tests that terminate their process, lose the device for later tests, or fail.
cat >thriftps_gpu/bin/rows_on_gpu_test <<'EOF'
#!/bin/bash
case " $* " in *" --gtest_list_tests "*) printf 'Devices/S.\n  First/cuda_0  # GetParam() = 1\n  Faults/cuda_0\n  AfterTheFault/cuda_0\n  Last/cuda_0\n'; exit ;; esac
filter=$(sed -n 's/.*--gtest_filter=\([^ ]*\).*/\1/p' <<<"$*")
lost=
for test in ${filter//:/ }; do
  echo "[ RUN      ] $test"
  case $test in
    */S.Faults/*) echo "error: an illegal access"; lost=1 ;;
    */S.Last/*) [ -n "$lost" ] || echo "[       OK ] $test (1 ms)"; [ -z "$lost" ] || exit 139; continue ;;
  esac
  if [ -n "$lost" ]; then echo "[  FAILED  ] $test (0 ms)"; else echo "[       OK ] $test (1 ms)"; fi
done
[ -z "$lost" ]
EOF
rm thriftps_gpu/bin/{layers,optimizers,rounding,elementwise,device_sum}_on_gpu_test
said=$(run_all -- conformance 2>&1)
expect 'only the faulty test fails' [ "$(grep -c '^conformance .* failed ' <<<"$said")" -eq 2 ]
expect 'and is named in full' grep -q '^conformance  *Devices/S.Faults/cuda_0  *failed  *alone too: error: an illegal access' <<<"$said"
expect 'the others passed in a fresh process' grep -q '1 of 4 tests' <<<"$said"

# Uses a fake GPU, which computes like the CPU.
rm -r thriftps_gpu
tar -xf "$bundle"
unpack
cp "$fake" thriftps_gpu/libtps_cuda.so
said=$(run_all LD_LIBRARY_PATH="$driver" -- --out=whole \
  identity conformance device_ops cuda_ipc tables parameter_server ddp_rpc lookup 2>&1)
status=$?
expect 'every part passes on a device that works' [ "$status" -eq 0 ]
expect 'all of it' [ "$(grep -c -E ' (failed|skipped) ' <<<"$said")" -eq 0 ]
expect 'CUDA trainers are measured' grep -q '^parameter_server *CUDA trainers, server .* passed .*a batch in .* ms' <<<"$said"
expect 'tables on the device are measured' grep -q '^ddp_rpc *CUDA trainers, tables .* passed .*an epoch in .* ms' <<<"$said"
expect 'memory is shared between processes' grep -q '^cuda_ipc *two processes .* passed' <<<"$said"
expect 'lookups reach the device' grep -q '^lookup *remote on cuda:0 .* passed' <<<"$said"
expect 'and stay there' grep -q '^lookup *cuda:0: step, lookup to cuda:0 .* passed .* rows/s' <<<"$said"
[ "$failed" -eq 0 ] || { printf '%s\n' "$said"; tail -n 40 whole/*.log; }

# The profiled operations must exist. A fake of the profiler runs them.
mkdir tools
cat >tools/ncu <<'EOF'
#!/bin/bash
kernel=$(sed 's/.*regex:\\b\([A-Za-z0-9]*\)\\b .*/\1/' <<<"$*")
echo "  void each_kernel<2, $kernel<4>>(T2) (64, 1, 1)x(256, 1, 1), Context 1, Stream 7"
while [[ $1 != ./bin/* ]]; do shift; done
exec "$@"
EOF
chmod +x tools/ncu
said=$(run_all PATH="$PWD/tools:/usr/bin:/bin" LD_LIBRARY_PATH="$driver" -- --out=profile profile 2>&1)
expect 'four operations are profiled' [ "$(grep -c '^profile .* passed' <<<"$said")" -eq 4 ]
expect 'each of which runs' [ "$(grep -c '^0 of 0 operations\|^[01] of 1 operations' profile/profile.log)" -eq 4 ]

thriftps_gpu/run_all.sh nonsense >/dev/null 2>&1
expect 'an unknown part is refused' [ $? -eq 2 ]

exit "$failed"

#!/bin/bash
# run_all.sh with fakes in place of the programs of the bundle and of the tools of the machine: its
# log survives a kill, each command has a limit, a fault ends one test, and it profiles kernels that
# exist.
#
#   run_all_on_fakes_test.sh SCRIPT SOURCE...
#
# SOURCEs are those of the kernels.
set -u
script=$PWD/$1
shift
sources=("${@/#/"$PWD/"}")
failed=0

expect () {  # DESCRIPTION CONDITION...
  local description=$1
  shift
  "$@" || { echo "FAILED: $description"; failed=1; }
}

# Makes a program of standard input.
fake () {  # PATH
  mkdir -p "$(dirname "$1")"
  { echo '#!/bin/bash'; cat; } >"$1"
  chmod +x "$1"
}

# Replaces its shell, which must be a subshell, so that a kill ends the script itself.
run_all () {  # ARGUMENT...
  exec env -i PATH="$TEST_TMPDIR/tools:/usr/bin:/bin" THRIFTPS_PYTHON="$TEST_TMPDIR/tools/python" \
    thriftps_gpu/run_all.sh "$@"
}

# Waits until a file has a line. Fails after 30 s.
await () {  # FILE PATTERN
  local deadline=$((SECONDS + 30))
  until grep -q -e "$2" "$1" 2>/dev/null; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.05
  done
}

cd "$TEST_TMPDIR" || exit 1
mkdir -p thriftps_gpu/lib tools
cp "$script" thriftps_gpu/run_all.sh
tar -C thriftps_gpu -czf thriftps_gpu/lib.tar.gz lib
printf 'exit 1\n' | fake tools/python

# -- a killed run --

fake thriftps_gpu/bin/device_ops <<'EOF'
case $* in *--rounds=1) exit ;; *--list) printf '%-28s     0.00\n' copy; exit ;; esac
echo "copy        3000.0"
echo $$ >device_ops.pid
exec sleep 600
EOF
run_all --out=killed device_ops >/dev/null 2>&1 &
script_pid=$!
expect 'the output of a running command is in the log' await killed/device_ops.log '^copy'
expect 'the command runs' await thriftps_gpu/device_ops.pid .
kill -KILL "$script_pid"
wait "$script_pid" 2>/dev/null
kill "$(cat thriftps_gpu/device_ops.pid)"
expect 'and is still there after a kill' grep -q '^copy  *3000' killed/device_ops.log

# -- limits --

# Hanging tools; those that are not started by `timeout` are recorded.
fake tools/timeout <<'EOF'
echo "$*" >>"$(dirname "$0")/timeouts"
IS_LIMITED=1 exec /usr/bin/timeout "$@"
EOF
for tool in tools/{python,nvidia-smi,dmesg,ncu,compute-sanitizer} thriftps_gpu/bin/{device_ops,nccl_ranks,rows_on_gpu_test}; do
  fake "$tool" <<EOF
[ "\${IS_LIMITED:-}" = 1 ] || echo "\$0" >>$TEST_TMPDIR/unlimited
exec sleep 600
EOF
done
sed -i 's/^LIMIT_S=525/LIMIT_S=2/' thriftps_gpu/run_all.sh
start=$SECONDS
said=$(run_all --out=limits identity sanitizer profile pytorch nccl conformance)
expect 'a stage ends in time if all commands hang' [ "$((SECONDS - start))" -le $((6 * 2 + 6)) ]
for tool in identity nccl; do
  expect "$tool is reached" grep -q "^$tool " <<<"$said"
done
expect 'every command has a limit' [ ! -e unlimited ]
expect 'which is never 0, the absence of a limit' [ "$(grep -c '^--kill-after=5 0 ' tools/timeouts)" -eq 0 ]
cp "$script" thriftps_gpu/run_all.sh
rm tools/{timeout,python,nvidia-smi,dmesg,ncu,compute-sanitizer}
printf 'exit 1\n' | fake tools/python

fake thriftps_gpu/bin/device_ops <<<'exit 0'

# -- faults --

# A test fails after another one, but not alone.
fake thriftps_gpu/bin/rows_on_gpu_test <<'EOF'
case " $* " in *" --gtest_list_tests "*) printf 'Devices/Rows.\n  First/cuda_0\n  Second/cuda_0\n'; exit ;; esac
case $* in *First*) echo '[       OK ] Devices/Rows.First/cuda_0 (1 ms)' ;; esac
case $* in
  *First*Second*) echo '[  FAILED  ] Devices/Rows.Second/cuda_0 (1 ms)'; exit 1 ;;
  *Second*) echo '[       OK ] Devices/Rows.Second/cuda_0 (1 ms)' ;;
esac
EOF
said=$(run_all --out=alone conformance)
expect 'a test that passes alone is no failure' [ $? -eq 0 ]
expect 'but it is named' grep -q '^conformance  *Devices/Rows.Second/cuda_0  *passed  *only alone' <<<"$said"
expect 'and counted' grep -q '^conformance  *rows_on_gpu_test  *passed  *2 tests, 1 of them only alone$' <<<"$said"

# The second operation fails, the third kills its process, and the fourth is wrong.
fake thriftps_gpu/bin/device_ops <<'EOF'
names=('' copy 'gather, dim 64' 'gather, dim 128' fill "relu's gradient")
case $* in *--list*) printf '%-28s     0.85\n' "${names[@]:1}"; exit ;; esac
case $* in *--rounds=1) exit ;; esac
skip=$(sed 's/.*--skip=\([0-9]*\).*/\1/' <<<"$*")
echo "$skip" >>processes
for ((i = skip + 1; i <= 5; i++)); do
  case $i in
    2) printf '%-28s %10s %8s %8s %8s  %s\n' "${names[i]}" - - 0.85 - 'an illegal access'; exit 1 ;;
    3) echo 'a message'; kill -SEGV $$ ;;
    4) printf '%-28s %10s %8s %8s %8s\n' "${names[i]}" 3000.1 1.001 0.00 7 ;;
    *) printf '%-28s %10s %8s %8s %8s\n' "${names[i]}" 2800.5 0.911 0.85 0 ;;
  esac
done
EOF
said=$(run_all --out=cases device_ops)
expect 'operations that fail are a failure' [ $? -eq 1 ]
expect 'the others run in processes of their own' [ "$(tr '\n' ' ' <thriftps_gpu/processes)" = '0 2 3 ' ]
expect 'each figure is a result' \
  grep -q "^device_ops  *relu's gradient  *passed  *2800.5 GB/s, 0.911 of the copy, target 0.85$" cases/results.txt
expect 'an operation that fails has its reason' \
  grep -q '^device_ops  *gather, dim 64  *failed  *an illegal access$' <<<"$said"
expect 'one that kills its process too' grep -q '^device_ops  *gather, dim 128  *failed  *exit code 139' <<<"$said"
expect 'a wrong one is named' grep -q '^device_ops  *fill  *failed  *7 elements are wrong$' <<<"$said"
expect 'and all are counted' grep -q '^device_ops  *cuda:0  *failed  *3 of 5 operations$' <<<"$said"

fake thriftps_gpu/bin/device_ops <<<'exit 0'

# -- gVisor --

fake tools/dmesg <<<"echo '[    0.000000] Starting gVisor...'"
for tool in compute-sanitizer ncu; do fake "tools/$tool" <<<"touch $TEST_TMPDIR/called"; done
said=$(run_all --out=gvisor sanitizer profile)
expect 'a skip is no failure' [ $? -eq 0 ]
for part in sanitizer profile; do
  expect "$part is skipped under gVisor" grep -q "^$part  *all  *skipped  *gVisor: " <<<"$said"
done
expect 'and its tool is not called' [ ! -e called ]

# -- libraries of PyTorch's Python --

mkdir -p site/torch site/nvidia/{nccl,cublas}/lib
touch site/torch/__init__.py
fake tools/python3 <<<"PYTHONPATH=$TEST_TMPDIR/site exec /usr/bin/python3 \"\$@\""
env -i PATH="$TEST_TMPDIR/tools:/usr/bin:/bin" thriftps_gpu/run_all.sh --out=libraries identity >/dev/null
expect 'libraries of NVIDIA are found in the first Python with PyTorch' \
  grep -q ":$TEST_TMPDIR/site/nvidia/cublas/lib:$TEST_TMPDIR/site/nvidia/nccl/lib" <(tail -n 1 libraries/identity.log)
rm tools/python3

# -- Nsight Compute --

# Answers all calls after the first one as the tool does if no kernel matches.
fake tools/ncu <<'EOF'
kernel=$(sed 's/.*--kernel-name regex:\\b\([A-Za-z0-9]*\)\\b .*/\1/' <<<"$*")
echo "$kernel $*" >>ncu.calls
if [ "$(wc -l <ncu.calls)" -gt 1 ]; then
  echo '==WARNING== No kernels were profiled.'
  echo "Available Kernels: 1. $kernel"
else
  echo "  void each_kernel<2, $kernel<4>>(T2, unsigned long) (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0"
fi
EOF
fake tools/dmesg <<<'exit 0'
said=$(run_all --out=profile profile)
expect 'kernels that are not profiled fail' [ $? -eq 1 ]
expect 'a profiled kernel passes' grep -q '^profile  *Gather  *passed' <<<"$said"
expect 'and the others are named' [ "$(grep -c '^profile  *[A-Z][A-Za-z]*  *failed  *no .*Context' <<<"$said")" -eq 3 ]
expect 'the first, small launch is not profiled' [ "$(grep -c -e '--launch-skip 1 ' thriftps_gpu/ncu.calls)" -eq 4 ]
while read -r kernel _; do
  expect "$kernel is the body of a kernel" grep -q "^\(template <.*> \)\?struct $kernel\( \|$\)" "${sources[@]}"
done <thriftps_gpu/ncu.calls

exit "$failed"

#!/bin/bash
# run_all.sh with fakes that replace the programs of the bundle and the tools of the machine. The
# log must survive a kill, each command must have a limit, and a fault must end only one test.
# Figures are results that are compared with targets, and only kernels that exist are profiled.
#
#   run_all_on_fakes_test.sh SCRIPT SOURCE...
#
# The SOURCEs are those of the kernels.
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

# Makes a program from standard input.
fake () {  # PATH
  mkdir -p "$(dirname "$1")"
  { echo '#!/bin/bash'; cat; } >"$1"
  chmod +x "$1"
}

# Replaces its own shell, which must be a subshell, so that a kill ends the script itself.
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
mkdir -p thriftps_gpu/bin tools
cp "$script" thriftps_gpu/run_all.sh
printf 'exit 1\n' | fake tools/python

# -- a killed run --

fake thriftps_gpu/bin/device_ops <<'EOF'
case $* in *--rounds=1) exit ;; *--list) printf '%-28s     0.00\n' copy fill; exit ;; esac
printf '%-28s %10s %8s %8s %8s\n' copy 3000.0 1.000 0.00 0
echo $$ >device_ops.pid
exec sleep 600
EOF
run_all --out=killed device_ops >/dev/null 2>&1 &
script_pid=$!
expect 'the output of a running command is in the log' await killed/device_ops.log '^copy'
expect 'and its first result is known' await killed/results.txt '^device_ops  *copy  *passed  *3000.0 GB/s'
expect 'the command runs' await thriftps_gpu/device_ops.pid .
kill -KILL "$script_pid"
wait "$script_pid" 2>/dev/null
kill "$(cat thriftps_gpu/device_ops.pid)"
expect 'both are still there after a kill' grep -q 'copy  *.*3000' killed/device_ops.log killed/results.txt

# -- limits --

# The fake tools hang for 600 s. Tools that are started without `timeout` are recorded.
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
expect 'a stage ends in time if all commands hang' [ "$((SECONDS - start))" -le 120 ]
for tool in identity nccl; do
  expect "$tool is reached" grep -q "^$tool " <<<"$said"
done
expect 'every command has a limit' [ ! -e unlimited ]
expect 'which is never 0, the absence of a limit' [ "$(grep -c '^--kill-after=5 0 ' tools/timeouts)" -eq 0 ]
rm thriftps_gpu/bin/rows_on_gpu_test tools/*
printf 'exit 1\n' | fake tools/python

fake thriftps_gpu/bin/device_ops <<<'exit 0'

# -- faults --

# The test fails after another test, but not alone.
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

# The second operation fails, the third kills its process, and the fourth has a wrong result.
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
    4) printf '%-28s %10s %8s %8s %8s  %s\n' "${names[i]}" 3000.1 1.001 0.00 7 'wrong at the measured size' ;;
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
expect 'a wrong one is named' \
  grep -q '^device_ops  *fill  *failed  *7 elements are wrong; wrong at the measured size$' <<<"$said"
expect 'and all are counted' grep -q '^device_ops  *cuda:0  *failed  *3 of 5 operations$' <<<"$said"

# The first case fails, and the third case does not fit into the memory.
fake thriftps_gpu/bin/huge_arrays <<'EOF'
case $* in *--list*) printf '%s\n' 'sum of 17' 'bags of 17' 'maxima of 17' 'maxima of 18'; exit ;; esac
skip=$(sed 's/.*--skip=\([0-9]*\).*/\1/' <<<"$*")
echo "$skip" >>huge_processes
[ "$skip" -gt 0 ] || { printf '%-28s  %s\n' 'sum of 17' 'an illegal access'; exit 1; }
echo 'bags of 17: 3.0 GiB of the device, 0.0 GiB of the host'
printf '%-28s  %s\n' 'bags of 17' right 'maxima of 17' 'does not fit: needs 90 GiB' 'maxima of 18' wrong
exit 1
EOF
said=$(run_all --out=huge huge_arrays)
expect 'cases of huge arrays after a fault run in another process' [ "$(tr '\n' ' ' <thriftps_gpu/huge_processes)" = '0 1 ' ]
expect 'the one with the fault is named' grep -q '^huge_arrays  *sum of 17  *failed  *an illegal access$' <<<"$said"
expect 'the next one is right' grep -q '^huge_arrays  *bags of 17  *passed *$' <<<"$said"
expect 'the one that does not fit is skipped' \
  grep -q '^huge_arrays  *maxima of 17  *skipped  *does not fit: needs 90 GiB$' <<<"$said"
expect 'wrong results are a failure' grep -q '^huge_arrays  *cuda:0  *failed  *2 of 4 cases$' <<<"$said"

fake thriftps_gpu/bin/device_ops <<<'exit 0'

# -- targets --

fake thriftps_gpu/bin/device_ops <<'EOF'
printf '%-28s %8s\n' copy 0.00 accumulate 0.85 'gather, dim 64' 0.85 'gather, dim 128' 0.85 'push, zipf ids' 0.50 fill 0.85
EOF
mkdir canned
{
  line='%-16s %-36s %-8s %s\n'
  printf "$line" device_ops copy passed '3000.0 GB/s, 1.000 of the copy'
  printf "$line" device_ops accumulate passed '2550.0 GB/s, 0.850 of the copy, target 0.85'
  printf "$line" device_ops 'gather, dim 64' passed '2999.0 GB/s, 0.999 of the copy, target 0.85'
  printf "$line" device_ops 'gather, dim 64' passed '2547.0 GB/s, 0.849 of the copy, target 0.85'
  printf "$line" device_ops 'push, zipf ids' passed '1600.0 GB/s, 0.533 of the copy, target 0.50'
  printf "$line" device_ops fill failed '3 elements are wrong'
  printf "$line" cuda_rpc 'beside PyTorch' passed 'a batch in 1.5 ms, PyTorch 4.5 ms: 0.333333'
} >canned/results.txt
said=$(run_all --compare canned)
expect 'a figure that is behind is a failure' [ $? -eq 1 ]
expect 'a target is reached exactly' grep -q '^device_ops  *accumulate  *0.850  *target 0.85 of the copy  *reached$' <<<"$said"
expect 'the last run counts' grep -q '^device_ops  *gather, dim 64  *0.849  .* behind$' <<<"$said"
expect 'an operation without a result is not measured' \
  grep -q '^device_ops  *gather, dim 128  *-  .* not measured$' <<<"$said"
expect 'nor is one that fails' grep -q '^device_ops  *fill  *-  .* not measured$' <<<"$said"
expect 'pushes have a target' grep -q '^device_ops  *push, zipf ids  *0.533  *target 0.50 .* reached$' <<<"$said"
expect "PyTorch's RPC takes twice our time or more" \
  grep -q '^cuda_rpc  *beside PyTorch  *3.000  *target 2 times PyTorch  *reached$' <<<"$said"
expect 'each figure has one line, and the last line counts them' \
  [ "$(wc -l <<<"$said") $(tail -n 1 <<<"$said")" = '8 3 reached, 1 behind, 3 not measured' ]
sed -i '/0\.849/d' canned/results.txt
run_all --compare canned >/dev/null &
expect 'without such a figure there is none' wait $!
run_all --compare /nonexistent 2>/dev/null &
wait $!
expect 'a folder without results is refused' [ $? -eq 2 ]
expect 'and nothing is written' [ ! -e thriftps_gpu/out ]
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

# In other containers, the tools exist but fail when they start.
fake tools/dmesg <<<'exit 0'
fake tools/compute-sanitizer <<<'echo "========= Error: Device not supported."; echo call >>sanitizer_calls; exit 1'
fake tools/ncu <<<'echo "==ERROR== LibraryNotLoaded"; exit 1'
fake thriftps_gpu/bin/rows_on_gpu_test <<'EOF'
case " $* " in *" --gtest_list_tests "*) printf 'Devices/S.\n  First/cuda_0\n' ;; esac
EOF
said=$(run_all --out=refused sanitizer profile)
expect 'a refusal is no failure' [ $? -eq 0 ]
expect 'and has the words of the sanitizer' grep -q '^sanitizer .* skipped .*Device not supported' <<<"$said"
expect 'and those of the profiler' grep -q '^profile .* skipped .*LibraryNotLoaded' <<<"$said"
expect 'each says it once' [ "$(wc -l <<<"$said") $(wc -l <thriftps_gpu/sanitizer_calls)" = '2 1' ]
rm thriftps_gpu/bin/rows_on_gpu_test tools/compute-sanitizer

# -- Nsight Compute --

# Replies to all calls after the first one like the tool if no kernel matches.
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

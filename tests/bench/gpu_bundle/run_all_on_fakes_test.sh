#!/bin/bash
# run_all.sh with fakes in place of the programs of the bundle and of the tools of the machine: its
# log survives a kill, each command has a limit, and it profiles kernels that exist.
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
case $* in *--rounds=1) exit ;; esac
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
fake thriftps_gpu/bin/device_ops <<<'exit 0'
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

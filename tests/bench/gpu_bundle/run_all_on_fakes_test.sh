#!/bin/bash
# run_all.sh with fakes in place of the programs of the bundle and of the tools of the machine: its
# log survives a kill. The fakes have no effects but those that the expectations name.
set -u
script=$PWD/$1
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

exit "$failed"

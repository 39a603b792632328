#!/bin/bash
# Another Bazel workspace uses this one, with gcc and with clang, and without a network. It has a
# server with its own service and ThriftPS, a C client, a test that uses the rules of ThriftPS, and,
# in Python, generated code and the package thriftps.
#
# usage: workspace_test.sh gcc|clang
set -euo pipefail

compiler=$1
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../..
root=$(readlink -f "$root")
here=$root/tests/integration/workspace
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/workspace.XXXXXX")
user=$work/user
bazel=${BAZEL:-/usr/bin/bazel}

run_bazel () {
  local command=$1
  shift
  (cd "$user" &&
    "$bazel" --output_user_root="$work/root" --nohome_rc --max_idle_secs=60 \
      --host_jvm_args=-Xmx1200m "$command" "$@")
}

end () {
  run_bazel shutdown > /dev/null 2>&1
  chmod -R u+w "$work"
  rm -rf "$work"
}
trap end EXIT

mkdir -p "$user/tests/integration/host"
sed "s|@THRIFTPS@|$root|" "$here/user.WORKSPACE" > "$user/WORKSPACE"
cp "$here/user.BUILD" "$user/BUILD"
cp "$root"/tests/integration/host/{fleet_host.c,host_server.[ch],journal.[ch]} \
  "$user/tests/integration/host"
cp "$root/tests/integration/host/fleet.thrift" "$user"
cp "$root/plugin/examples/tables.c" "$user"
cat > "$user/version_test.cc" <<'EOF'
#include <gtest/gtest.h>
#include <thriftps/plugin.h>

static int unused; // a warning: in this workspace, it must not be an error

TEST (Services, HaveNames)
{
  EXPECT_STREQ (tps_plugin_list_services ()[0], "Node");
}
EOF
echo 'import fleet, thriftps.tensor; print("python: ok")' > "$user/python_client.py"
cp "$here/user_test.py" "$user/thriftps_test.py"

options=(--noshow_progress --color=no --nosandbox_debug --experimental_repository_disable_download
  --repo_env=CC="$compiler" --cxxopt=-std=c++17)
if [ -n "${BAZEL_DISK_CACHE:-}" ]; then options+=(--disk_cache="$BAZEL_DISK_CACHE"); fi
run_bazel test "${options[@]}" --test_output=errors //:all @thriftps//plugin:thriftps_server
run_bazel run "${options[@]}" //:python_client | grep -x 'python: ok'

# The user's client calls the server of ThriftPS.
mkfifo "$work/ready"
"$user/bazel-bin/external/thriftps/plugin/app/thriftps_server" --listen=127.0.0.1:0 \
  > "$work/ready" &
server=$!
read -r _ _ address < "$work/ready"
"$user/bazel-bin/tables" "$address" | grep -x -e '-1.5 -1.5 -1.5 -1.5'
kill $server
wait $server

# The user's server exits when its input ends.
"$user/bazel-bin/fleet_host" < /dev/null | grep -q '^listening on '

#!/bin/bash
# Installs the Debian packages in a separate Debian system, uses them and removes them.
#
# usage: deb_test.sh PROGRAM.c CONTAINERFILE.PY CONTAINERFILE PACKAGE.deb...
#
# Needs root, debootstrap and a mirror ($DEBIAN_MIRROR; default http://deb.debian.org/debian).
# Without them, it prints the reason and ends. .ci/full installs debootstrap.
set -euo pipefail

skip () {
  echo "skipped: $1"
  if [ -n "${XML_OUTPUT_FILE:-}" ]; then
    cat > "$XML_OUTPUT_FILE" <<EOF
<testsuites><testsuite name="deb" tests="1" skipped="1">
<testcase name="deb"><skipped message="$1"/></testcase>
</testsuite></testsuites>
EOF
  fi
  exit 0
}

[ "$(id -u)" = 0 ] || skip 'only root can make a root folder of a Debian'
PATH=$PATH:/usr/sbin:/sbin
for program in debootstrap lintian unshare; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

program=$1
container=$(python3 "$2" "$3" build)
user=$(sed -n 's/^USER //p' "$3")
shift 3
lintian --allow-root --fail-on warning,error "$@"

root=$(mktemp -d /var/tmp/thriftps-deb.XXXXXX)
chmod 755 "$root" # the container's user must be able to traverse it
trap 'rm -rf --one-file-system "$root" "$root.log" "$root.serve"' EXIT
debootstrap --variant=minbase "$release" "$root" "$mirror" > "$root.log" 2>&1 || {
  tail -3 "$root.log"
  skip "debootstrap cannot reach $mirror"
}
mkdir "$root/packages"
cp -L "$program" "$root/packages/program.c"
cp -L "$@" "$root/packages"

cat > "$root/packages/push.py" <<'EOF'
import importlib.metadata
import sys
import thriftps

with thriftps.connect(sys.argv[1]) as tables:
    table = tables.create("python", 10, 2, optimizer=thriftps.SGD(lr=1.0),
                          initializer=thriftps.Zeros())
    table.push([3], [[1, 2]])
    print(importlib.metadata.version("thriftps"), table.lookup([3]).tolist())
EOF

cat > "$root/packages/use" <<'EOF'
set -eux
mount -t proc proc /proc
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
cd /packages
is_installed () { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }
install () {
  apt-get -q install -y --no-install-recommends "$@" > log 2>&1 || { cat log; exit 1; }
}

apt-get -q update > log 2>&1 || { cat log; exit 1; }

# The server must work alone: without OpenBLAS, Gloo and Python.
install ./thriftps-server.deb
thriftps_server --version
thriftps_log --help > /dev/null
thriftps_snapshot --help > /dev/null
for package in libopenblas0-pthread libgloo0 libibverbs1 python3; do
  if is_installed $package; then exit 1; fi
done

# A C program.
install ./libthriftps0.deb ./libthriftps-dev.deb gcc libc6-dev pkg-config
cc -Wall -Wextra -Wcast-qual -Werror program.c $(pkg-config --cflags --libs thriftps) -o program
mkfifo ready
thriftps_server --listen=unix:/tmp/server > ready & server=$!
read -r listening < ready
test "$(./program unix:/tmp/server)" = '-1.5 -1.5 -1.5 -1.5'

# A program in Python, with the package's dependencies but without its recommendations.
install ./python3-thriftps.deb
if is_installed python3-numpy; then exit 1; fi
test "$(python3 -W error push.py unix:/tmp/server)" = '0.1.0 [[-1.0, -2.0]]'
test -e /usr/lib/python3/dist-packages/thriftps/__pycache__ # compiled by the package's script
kill $server; wait $server

# The trainer, and Gloo.
install ./thriftps-trainer.deb
thriftps_trainer --version
install ./thriftps-gloo.deb
is_installed libgloo0
if ldd /usr/lib/thriftps/libtps_gloo.so | grep 'not found'; then exit 1; fi

# No file may have changed since the installation, and removal must leave no file.
all='thriftps-server thriftps-trainer libthriftps0 libthriftps-dev thriftps-gloo python3-thriftps'
dpkg -V $all
apt-get -q purge -y $all > log 2>&1
if dpkg-query -W -f '${Package}\n' | grep thriftps; then exit 1; fi
if find / -xdev -name '*thriftps*' -not -path '/packages/*' | grep .; then exit 1; fi
EOF
unshare --mount --pid --fork chroot "$root" /bin/sh /packages/use

# Runs the steps of the Containerfile in a fresh minimal Debian system.
mv "$root/packages" "$root/context"
echo "$container" > "$root/context/build"
unshare --mount --pid --fork chroot "$root" /bin/sh /context/build > "$root.log" 2>&1 || {
  tail -20 "$root.log"
  exit 1
}

# Runs the server as the container's user, with a read-only root folder.
cat > "$root/context/serve" <<'EOF'
set -eux
if touch /etc/x 2>/dev/null; then exit 1; fi
cd /var/lib/thriftps
thriftps_server --config=/etc/thriftps/server.json --listen=127.0.0.1:0 \
  --data-dir=/var/lib/thriftps/data --log-segment-mib=1 > ready & server=$!
until grep -q listening ready; do kill -0 $server; done
kill $server
wait $server
EOF
cat > "$root.serve" <<'EOF'
set -eux
mount --bind "$1" "$1"
mount --bind "$1/var/lib/thriftps" "$1/var/lib/thriftps"
mount -t proc proc "$1/proc"
mount -o remount,bind,ro "$1"
exec chroot --userspec="$2" "$1" /bin/sh /context/serve
EOF
timeout 120 unshare --mount --pid --fork --kill-child /bin/sh "$root.serve" "$root" "$user"
echo 'all packages were installed, used and removed, and the container was built and served'

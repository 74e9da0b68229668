# Makes the packages of what was built, installs them into a new Debian 12, and serves a plan there. Needs root, dpkg-dev and
# debootstrap, and Debian's packages within reach.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
for tool in debootstrap dpkg-shlibdeps chroot; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
((EUID == 0)) || { echo "skipped: making a root file system needs root"; exit 77; }
trap 'umount -q "$WORK"/root/proc; rm -rf --one-file-system "$WORK"' EXIT

"$SOURCE/packaging/make-deb" "$WORK/debs" --build "$BUILD" >sizes || fail "no packages: $(cat sizes)"
cat sizes
ls debs/tangram_*.deb debs/tangram-dev_*.deb debs/tangram-doc_*.deb >/dev/null || fail "a package is missing"
kb=$(dpkg-deb -f debs/tangram_*.deb Installed-Size)
((kb < 60 * 1024)) || fail "tangram takes $kb kB installed, 60 MB wanted"
# The same sources give the same bytes.
"$SOURCE/packaging/make-deb" "$WORK/again" --build "$BUILD" >/dev/null
cmp debs/tangram_*.deb again/tangram_*.deb || fail "packages of one build differ"

debootstrap --variant=minbase bookworm root >bootstrap.log 2>&1 || { echo "skipped: no Debian 12 can be made: $(tail -n 1 bootstrap.log)"; exit 77; }
mkdir -p root/debs
cp debs/*.deb root/debs/
[[ ! -e /etc/apt/apt.conf.d ]] || cp -r /etc/apt/apt.conf.d/. root/etc/apt/apt.conf.d/
cp /etc/apt/sources.list root/etc/apt/ 2>/dev/null
cp -r /etc/apt/sources.list.d/. root/etc/apt/sources.list.d/ 2>/dev/null
cp /etc/resolv.conf root/etc/ 2>/dev/null
mount -t proc proc root/proc || { echo "skipped: /proc cannot be mounted"; exit 77; }
enter=(chroot root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
in_root() { "${enter[@]}" "$@"; }
in_root apt-get update -q >apt.log 2>&1
in_root sh -c 'apt-get install -q -y --no-install-recommends /debs/tangram_*.deb' >>apt.log 2>&1 || fail "not installed: $(tail -n 5 apt.log)"

in_root tangram version >out || fail "the program does not run"
in_root tangram doctor --output json >doctor.json || fail "doctor: $?"
in_root getent passwd tangram >/dev/null || fail "there is no user tangram"
for file in /usr/share/man/man1/tangram.1.gz /usr/share/man/man1/tangram-serve.1.gz /usr/share/bash-completion/completions/tangram \
  /usr/lib/systemd/system/tangram-gateway.service /etc/tangram/gateway.env /usr/share/tangram/grafana/tangram.json; do
  [[ -e root$file ]] || fail "$file is missing"
done
# Ten minutes of an administrator: the files where the unit looks for them, and the command of the unit, as its user.
share=root/usr/share/tangram/examples
cp $share/services.yaml $share/measurements.csv $share/fleet.yaml $share/trace.csv root/etc/tangram/
in_root sh -c 'cd /etc/tangram && tangram plan fleet.yaml services.yaml --measurements measurements.csv -o plan.json --quiet' >/dev/null || fail "no plan"
sed -i 's/--http-port 8000/--http-port 18471/; s/--grpc-port 8001 //; s/--metrics-port 8002/--metrics-port 0/' root/etc/tangram/gateway.env
cat >root/start <<'S'
#!/bin/sh
. /etc/tangram/gateway.env
exec setpriv --reuid=tangram --regid=tangram --clear-groups --no-new-privs --bounding-set=-all \
  /usr/bin/tangram serve /etc/tangram/plan.json --services /etc/tangram/services.yaml $TANGRAM_SERVE_OPTIONS
S
chmod 755 root/start
: >serve.log
"${enter[@]}" /start 2>serve.log &
server=$!
for ((i = 0; i < 600; ++i)); do grep -q '"event":"ready"' serve.log && break; sleep 0.1; done
grep -q '"event":"ready"' serve.log || fail "not ready: $(tail -n 3 serve.log)"
in_root tangram load --http-port 18471 --services /etc/tangram/services.yaml --seconds 3 --output json >load.json
python3 -c 'import json; t = json.load(open("load.json"))["total"]; assert t["in_time"] > 0 and t["failed"] == 0, t' || fail "load: $(head -c 400 load.json)"
kill -TERM "$server"
wait "$server" || fail "serve ended with $?"
# apt takes everything away again but what the administrator changed; purge takes that, too.
in_root apt-get purge -q -y tangram >>apt.log 2>&1 || fail "not removed: $(tail -n 5 apt.log)"
[[ ! -e root/usr/bin/tangram && ! -e root/etc/tangram/gateway.env ]] || fail "purge leaves files"
finish

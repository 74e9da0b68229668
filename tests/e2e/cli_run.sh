#!/usr/bin/env bash
# ./run: which exit code it gives for which end of the load. Builds and measures nothing: a copy of the script finds
# stand-ins where it expects the packages, the build and the program.
. "$(dirname "$0")/lib.sh" || exit 1

mkdir -p home/packaging home/build/release/bin home/build/release/lib/tangram tools
cp "$SOURCE/run" home/run
touch home/build/release/build.ninja home/build/release/lib/tangram/libtangram_torch.so
printf '#!/bin/sh\n' | tee home/packaging/install-packages >tools/cmake
# The verbs succeed; `serve` answers that it is ready, or dies; `load` ends with the code in the file `code`.
cat >home/build/release/bin/tangram <<'S'
#!/usr/bin/env bash
here="$(dirname "$0")"
case $1 in
  doctor) cat "$here/doctor" ;;
  plan) echo '1 device, headroom for 1.50 times the rates' ;;
  demo) ;;
  load) echo "$@" >>"$here/load-arguments"; exit "$(cat "$here/code")" ;;
  serve) [[ ! -e $here/serve-dies ]] || { echo 'no such plan' >&2; exit 3; }
         exec python3 -c '
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Ready)
port = server.server_port
print(f"{{\"event\":\"serving\",\"http\":\"http://127.0.0.1:{port}\",\"metrics\":\"http://127.0.0.1:1\"}}", file=sys.stderr, flush=True)
print("{\"event\":\"lending_tables\",\"slices_lendable_at_most\":2}", file=sys.stderr, flush=True)
server.serve_forever()' ;;
esac
S
chmod +x home/packaging/install-packages home/build/release/bin/tangram tools/cmake
bin=home/build/release/bin
# engines ONNX TORCH: which of the two can be used.
engines() {
  printf '{"quota": true, "engines": [{"engine": "onnx", "device": "cpu", "usable": %s}, {"engine": "torch", "device": "cpu", "usable": %s}]}\n' \
    "$1" "$2" >"$bin/doctor"
}
engines false true

# runs CODE ARGUMENT...: ./run ends with that code.
runs() {
  local wanted=$1 code=0
  shift
  PATH="$WORK/tools:$PATH" timeout 60 ./home/run "$@" >out 2>err </dev/null || code=$?
  [[ $code == "$wanted" ]] || fail "./run $*: exit $code, expected $wanted: $(head -c 300 err)"
}

echo 0 >$bin/code
runs 0 --seconds 2
has out "report.html has the pictures"
empty err
# Half of the headroom of the plan, for as long as was asked for.
has $bin/load-arguments "--seconds 2 --rate-scale 0.75"
has out "--engine torch"
# Where PyTorch is there, a job trains beside a tenth of that load.
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  has out "train submit job.yaml --port 1"
  grep -q -- "--rate-scale 0.0[78]" $bin/load-arguments || fail "no load beside training: $(cat $bin/load-arguments)"
  has out "train show digits"
fi
# ONNX Runtime goes first; without either there is the demonstration.
engines true true
runs 0 --seconds 2
has out "--engine onnx"
engines false false
runs 0
has err "neither ONNX Runtime nor libtorch"
engines true false
# A promise that is broken without a failure is told; one that failures broke fails, with the code of the load.
echo 1 >$bin/code
runs 0
has err "A promise was broken"
echo 3 >$bin/code
runs 3
has err "failed: the load ended with exit code 3"
grep -q "has the pictures" out && fail "./run says what it made after a load that failed"
# A server that does not start.
touch $bin/serve-dies
runs 1
has err "no such plan"
# No server is left behind.
for pid in $(pgrep -f "python3 -c .*Ready" || true); do
  [[ $(readlink "/proc/$pid/cwd") != "$WORK"* ]] || fail "a server still runs: $pid"
done
runs 2 --second 3
has err "unknown argument --second"
runs 0 --help
has out "3 if a promise was broken and requests of the load failed"
finish

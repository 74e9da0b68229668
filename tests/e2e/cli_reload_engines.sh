# What a reload may add, and where a server that makes its own plans needs servers: nothing runs on an engine that was
# not set up, and no plan puts a service where it has no server.
. "$(dirname "$0")/lib.sh" || exit 1
{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  echo a100-80gb,1g.10gb,net,1,1,1,25,,900,40
  echo a100-80gb,2g.20gb,net,1,1,1,15,,900,60
} >m.csv
service() { # NAME FURTHER...
  printf '  - {name: %s, model: net, slo: {latency_ms: 2000, percentile: 95}, traffic: {rate_per_s: 10}%s}\n' "$1" "${2-}"
}
plan() { # PROFILE SERVICE...
  python3 - "$@" <<'P' >plan.json
import json, sys
profile, services = sys.argv[1], sys.argv[2:]
starts = range(0, 2 * len(services), 2)
slices = [{"profile": profile, "start": i, "replicas": [{"service": s, "processes": 1,
           "buckets": [{"size_max": 1, "batch_size": 1}]}]} for i, s in zip(starts, services)]
print(json.dumps({"version": 1, "devices": [{"name": "rack-0", "type": "a100-80gb",
      "layout": " + ".join("%s@%d" % (profile, i) for i in starts), "slices": slices}]}))
P
}
far=', engine: remote, remote: [{profile: 1g.10gb, address: "127.0.0.1:9"}]'
printf 'devices:\n  - {type: a100-80gb, name: rack, count: 1}\n' >fleet.yaml
{ echo services:; service rank "$far"; } >services.yaml
expect 2 serve --follow fleet.yaml --services services.yaml --measurements m.csv --rule half
has err "rank: each server in \`remote\` is for one MigProfile"
plan 2g.20gb rank
expect 2 serve plan.json --services services.yaml --measurements m.csv; has err "no server in \`remote\` is for slices of 2g.20gb"

# begin OPTIONS...: serves the plan; its admin port is then in ADMIN.
begin() {
  "$TANGRAM" serve plan.json --services services.yaml --measurements m.csv --http-port 0 --metrics-port 0 --no-grpc \
    "$@" >/dev/null 2>log &
  PID=$!
  for ((i = 0; i < 300; ++i)); do
    grep -qs '"event":"serving"' log && break
    sleep 0.1
  done
  ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' log)
  [[ -n $ADMIN ]] || { fail "the server did not start: $(cat log)"; finish; }
}
# Nobody is there at that address, so the slices are not ready; a reload needs none to be.
plan 1g.10gb rank
begin --engine onnx --models .
plan 2g.20gb rank
expect 1 reload --port "$ADMIN"; has out "no server in \`remote\` is for slices of 2g.20gb"
{ echo services:; service rank "$far"; service new; } >services.yaml
plan 1g.10gb rank new
expect 1 reload --port "$ADMIN"; has out "service 'new' is new and is the first that runs on --engine onnx, which requires a restart"
kill -TERM "$PID"; wait "$PID"
{ echo services:; service rank "$far"; } >services.yaml
plan 1g.10gb rank
begin --engine remote
{ echo services:; service rank "$far"; service new; } >services.yaml
plan 1g.10gb rank new
expect 1 reload --port "$ADMIN"; has out "service 'new' is new and runs on --engine remote, for which there is no --remote"
# One that runs as the server can is welcome.
kill -TERM "$PID"; wait "$PID"
{ echo services:; service rank "$far"; } >services.yaml
plan 1g.10gb rank
begin --engine emulated
{ echo services:; service rank "$far"; service new; } >services.yaml
plan 1g.10gb rank new
expect 0 reload --port "$ADMIN"
kill -TERM "$PID"; wait "$PID"
finish

# A gateway whose slices are on other processes, `tangram node`: they join with a token, serve, are killed, come back, leave.
. "$(dirname "$0")/lib.sh" || exit 1
give_up_after 110 sh -c 'tail -n 5 gateway.* node.* 2>/dev/null'
trap 'kill $PIDS 2>/dev/null; rm -rf "$WORK"' EXIT
PIDS=

printf 'services:\n  - {name: rank, model: net, slo: {latency_ms: 1000, percentile: 99}, traffic: {rate_per_s: 60}}\n' >services.yaml
{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  echo a100-80gb,1g.10gb,net,1,1,1,5,,900,200
  echo a100-80gb,1g.10gb,net,4,1,1,8,,900,500
} >m.csv
python3 - <<'P'
import json
piece = lambda start: {"profile": "1g.10gb", "start": start, "replicas": [
    {"service": "rank", "processes": 1, "buckets": [{"size_max": 1, "batch_size": 4}]}]}
json.dump({"version": 1, "devices": [
    {"name": name, "type": "a100-80gb", "layout": "1g.10gb@0 + 1g.10gb@1", "slices": [piece(0), piece(1)]}
    for name in ("rack-0", "rack-1")]}, open("plan.json", "w"))
P

# Wrong usage.
expect 2 node --token-file token; has err "--join"
expect 2 node --join 127.0.0.1:8003; has err "--token-file"
expect 2 node --join nowhere --token-file token; has err "HOST:PORT"
echo rubbish >rubbish
expect 2 node --join 127.0.0.1:8003 --token-file rubbish; has err "join token"
expect 2 token create --ttl soon --state kept; has err "--ttl"
expect 2 token revoke --state kept; has err "ID"
expect 2 serve plan.json --services services.yaml --measurements m.csv --node-state kept; has err "--node-port"
expect 2 serve plan.json --services services.yaml --measurements m.csv --node-port 0 --training jobs; has err "--training"

expect 0 token create --ttl 1h --state kept --note "this test"; cp out token
expect 0 token list --state kept; has out "this test"; has out "valid"
grep -q "$(cut -d_ -f4 token)" kept/tokens.json && fail "the secret is in the file"

GATEWAYS=0
# begin_gateway OPTIONS...: its process is in $GATEWAY, its log in gateway.$GATEWAYS.
begin_gateway() {
  GATEWAYS=$((GATEWAYS + 1))
  "$TANGRAM" serve plan.json --services services.yaml --measurements m.csv --node-state kept --http-port 0 --no-grpc \
    --metrics-port "${ADMIN:-0}" --node-port "${NODES:-0}" "$@" >/dev/null 2>gateway.$GATEWAYS &
  GATEWAY=$!
  PIDS="$PIDS $GATEWAY"
  wait_line gateway.$GATEWAYS '"event":"serving"'
  HTTP=$(sed -n 's/.*"http":"http:[/][/]127.0.0.1:\([0-9]*\)".*/\1/p' gateway.$GATEWAYS)
  ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' gateway.$GATEWAYS)
  NODES=$(sed -n 's/.*"nodes":"127.0.0.1:\([0-9]*\)".*/\1/p' gateway.$GATEWAYS)
}
# wait_line FILE TEXT: until the file has it.
wait_line() {
  for ((i = 0; i < 300; ++i)); do grep -qsF -- "$2" "$1" && return; sleep 0.05; done
  fail "waited for $2 in $1: $(tail -n 3 "$1")"
  finish
}
# begin_node NAME OPTIONS...: its process is in $NODE.
begin_node() {
  local name=$1
  shift
  "$TANGRAM" node --join "127.0.0.1:$NODES" --token-file token --name "$name" "$@" >/dev/null 2>"node.$name" &
  NODE=$!
  PIDS="$PIDS $NODE"
}
# wait_nodes EXPRESSION: until the answer of `tangram nodes`, by name in n, makes the Python expression true.
wait_nodes() {
  for ((i = 0; i < 300; ++i)); do
    "$TANGRAM" nodes --port "$ADMIN" --output json >nodes.json 2>/dev/null &&
      python3 -c "
import json
n = {node['name']: node for node in json.load(open('nodes.json'))['nodes']}
ready = lambda name: name in n and n[name]['state'] == 'joined' and n[name]['slices'] and all(s['state'] in ('ready', 'busy') for s in n[name]['slices'])
raise SystemExit(not ($1))" && return
    sleep 0.05
  done
  fail "waited for: $1; $(cat nodes.json) $(tail -n 3 gateway.$GATEWAYS)"
  finish
}

# Slices that exist on one node, a whole device on the other.
begin_gateway --record live.rec
expect 0 nodes --port "$ADMIN"; has out "no node has joined"
begin_node one --slices 2x1g.10gb
ONE=$NODE
begin_node two --device a100-80gb
TWO=$NODE
wait_nodes 'ready("one") and ready("two") and len(n["one"]["slices"]) == 2 and len(n["two"]["slices"]) == 2'
wait_line gateway.1 '"event":"ready"'
expect 0 nodes --port "$ADMIN"; has out "joined"; has out "rack-0/1g.10gb@0"
expect 0 status --port "$ADMIN" --output json; has out '"joined"'
answers --services services.yaml --http-port "$HTTP" --seconds 1
curl -sS "http://127.0.0.1:$ADMIN/metrics" >metrics
for family in tangram_node_up tangram_node_rtt_seconds tangram_node_batches_total tangram_node_slice_network_seconds; do
  has metrics "$family"
done
python3 - <<'P' || fail "batches: $(grep tangram_node_batches_total metrics)"
import re
raise SystemExit(float(re.search(r"^tangram_node_batches_total (\S+)", open("metrics").read(), re.M)[1]) < 10)
P

# A token that is none of ours, and one that was revoked.
expect 0 token create --state elsewhere; cp out foreign
"$TANGRAM" node --join "127.0.0.1:$NODES" --token-file foreign --name spy --slices 1g.10gb >/dev/null 2>node.spy &
SPY=$!
PIDS="$PIDS $SPY"
wait_line node.spy "another certificate"
kill "$SPY"
expect 0 token create --state kept; cp out second
expect 0 token revoke "$(cut -d_ -f3 second)" --state kept
code=0; "$TANGRAM" node --join "127.0.0.1:$NODES" --token-file second --name late --slices 1g.10gb >/dev/null 2>err || code=$?
[[ $code != 0 ]] || fail "a revoked token lets a node in"
has err "was revoked"

# One is killed under load: every request is answered, by the other, and nothing is lost.
"$TANGRAM" load --services services.yaml --http-port "$HTTP" --seconds 3 --output json >load.json 2>load.err &
LOAD=$!
sleep 1
kill -9 "$TWO"
wait "$LOAD"
python3 - <<'P' || fail "load while a node is killed: $(cat load.json)"
import json
total = json.load(open("load.json"))["total"]
raise SystemExit(total["failed"] + total["unanswered"] > 0 or total["in_time"] < 0.95 * total["sent"])
P
wait_nodes 'n["two"]["state"] == "lost" and ready("one")'
has gateway.1 '"event":"node_lost"'
begin_node two --device a100-80gb
TWO=$NODE
wait_nodes 'ready("two") and n["two"]["losses"] == 1'

# The gateway is killed and starts again: the nodes keep what they have, and join without anybody's help.
kill -9 "$GATEWAY"
wait "$GATEWAY" 2>/dev/null
expect 0 replay live.rec
begin_gateway
wait_nodes 'ready("one") and ready("two")'
wait_line gateway.2 '"event":"ready"'
wait_line node.one '"slices_loaded":2'
answers --services services.yaml --http-port "$HTTP" --seconds 1

# One leaves.
kill -TERM "$ONE"
code=0; wait "$ONE" || code=$?
[[ $code == 0 ]] || fail "a node that leaves: exit $code: $(tail -n 3 node.one)"
wait_nodes 'n["one"]["state"] in ("leaving", "lost")'
answers --services services.yaml --http-port "$HTTP" --seconds 1
kill -TERM "$GATEWAY"
code=0; wait "$GATEWAY" || code=$?
[[ $code == 0 ]] || fail "the gateway: exit $code: $(tail -n 3 gateway.2)"
kill -TERM "$TWO"
code=0; wait "$TWO" || code=$?
[[ $code == 0 ]] || fail "a node without a gateway: exit $code: $(tail -n 3 node.two)"
finish

# GPUs that the driver reports as broken, and a whole server of remote slices that is gone, are planned around, and used again
# when they are back.
. "$(dirname "$0")/lib.sh" || exit 1

{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  echo a100-80gb,1g.10gb,net,1,1,1,25,,900,40
} >m.csv
echo 'services:
  - {name: rank, model: net, slo: {latency_ms: 2000, percentile: 95}, traffic: {rate_per_s: 30}}' >services.yaml
printf 'devices:\n  - {type: a100-80gb, name: rack, count: 2}\n' >fleet.yaml
# begin NAME ARGUMENTS...: starts a server; its log is log.NAME, its process $PID, its ports $HTTP and $ADMIN.
begin() {
  local name=$1
  shift
  "$TANGRAM" serve "$@" --services services.yaml --measurements m.csv --http-port 0 --metrics-port 0 --no-grpc >/dev/null \
    2>log.$name &
  PID=$!
  for ((i = 0; i < 300; ++i)); do
    grep -qs '"event":"ready"' log.$name && break
    sleep 0.1
  done
  HTTP=$(sed -n 's/.*"http":"http:[/][/]127.0.0.1:\([0-9]*\)".*/\1/p' log.$name)
  ADMIN=$(sed -n 's/.*"metrics":"http:[/][/]127.0.0.1:\([0-9]*\)[/].*/\1/p' log.$name)
  [[ -n $HTTP && -n $ADMIN ]] || { fail "the server did not start: $(cat log.$name)"; finish; }
}
# wait_for EXPRESSION: until the status of following, as f, makes the Python expression true.
wait_for() {
  for ((i = 0; i < 600; ++i)); do
    "$TANGRAM" follow --port "$ADMIN" --output json >status.json 2>/dev/null &&
      python3 -c "import json; f = json.load(open('status.json')); raise SystemExit(not ($1))" && return
    sleep 0.1
  done
  fail "waited for: $1; $(cat status.json) $(tail -n 5 log.*)"
}
served_by() {
  "$TANGRAM" status --port "$ADMIN" --output json |
    python3 -c 'import json,sys; print(*sorted({s["slice"].split("/")[0] for s in json.load(sys.stdin)["slices"]}))'
}
ready() { curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$HTTP/v2/health/ready"; }
wait_ready_is() {
  for ((i = 0; i < 300; ++i)); do [[ $(ready) == "$1" ]] && return; sleep 0.1; done
  fail "ready is $(ready), expected $1: $(tail -n 5 log.*)"
}

# GPUs of the stand-in driver.
export TANGRAM_STATE=$WORK/gpu-state FAKE_NVML_STATE=$WORK/gpus TANGRAM_NVML=$FAKE_NVML/libnvidia-ml.so.1
printf 'made 100\ngpu a100-80gb GPU-a 1 1 0 0 0\ngpu a100-80gb GPU-b 1 1 0 0 0\n' >gpus
driver() { python3 -c "import ctypes, os; ctypes.CDLL(os.environ['TANGRAM_NVML']).$1"; }
begin gpus --follow fleet.yaml --rule half --cuts nvml --gpu rack-0=GPU-a --gpu rack-1=GPU-b
[[ $(served_by) == rack-0 ]] || fail "first served by $(served_by)"
# The error of a program: the GPU works on.
driver 'fake_nvml_xid(0, 31, 1)'
for ((i = 0; i < 300; ++i)); do grep -q '"xid":31' log.gpus && break; sleep 0.1; done
has log.gpus '"event":"gpu_xid"'
# An error of the GPU.
driver 'fake_nvml_xid(0, 79, 0xFFFFFFFF)'
wait_for 'f["lost"] == ["rack-0"] and f["moves"] == 1 and not f["moving"] and "lost rack-0" in f["last_reason"]'
has log.gpus '"reason":"XID 79"'
[[ $(served_by) == rack-1 ]] || fail "served by $(served_by) after the XID"
answers --services services.yaml --http-port "$HTTP" --seconds 2
# The last GPU falls off the bus, and comes back.
driver 'fake_nvml_gone(1, 1)'
wait_ready_is 400
has log.gpus "the driver cannot reach the GPU"
driver 'fake_nvml_gone(1, 0)'
wait_ready_is 200
wait_for 'f["lost"] == ["rack-0"] and not f["moving"]'
answers --services services.yaml --http-port "$HTTP" --seconds 2
kill -TERM "$PID"; wait "$PID" || fail "the server of GPUs ended with $?"
# A server starts while a GPU does not answer, plans around it, and knows when it is back.
driver 'fake_nvml_gone(0, 1)'
begin without --follow fleet.yaml --rule half --cuts nvml --gpu rack-0=GPU-a --gpu rack-1=GPU-b
[[ $(served_by) == rack-1 ]] || fail "served by $(served_by) while GPU-a does not answer"
wait_for 'f["lost"] == ["rack-0"]'
answers --services services.yaml --http-port "$HTTP" --seconds 1
driver 'fake_nvml_gone(0, 0)'
wait_for 'f["lost"] == []'
has log.without '"event":"devices_back"'
kill -TERM "$PID"; wait "$PID" || fail "the server without a GPU ended with $?"
unset TANGRAM_STATE FAKE_NVML_STATE TANGRAM_NVML

# Each device is a server elsewhere. One is killed while no request runs.
cat >there.json <<'P'
{"version": 1, "devices": [{"name": "there", "type": "a100-80gb", "layout": "1g.10gb@0 + 1g.10gb@1", "slices": [
  {"profile": "1g.10gb", "start": 0, "replicas": [
    {"service": "net", "processes": 1, "buckets": [{"size_max": 1, "batch_size": 1}]}]},
  {"profile": "1g.10gb", "start": 1, "replicas": [
    {"service": "net", "processes": 1, "buckets": [{"size_max": 1, "batch_size": 1}]}]}]}]}
P
sed 's/name: rank/name: net/' services.yaml >net.yaml
mv services.yaml rank.yaml
cp net.yaml services.yaml
begin there0 there.json; THERE0=$PID PORT0=$HTTP
begin there1 there.json; THERE1=$PID PORT1=$HTTP
cp rank.yaml services.yaml
begin here --follow fleet.yaml --rule half --engine remote --remote "127.0.0.1:$PORT0" --remote "127.0.0.1:$PORT1" --lost-after 1
[[ $(served_by) == rack-0 ]] || fail "first served by $(served_by) elsewhere"
answers --services services.yaml --http-port "$HTTP" --seconds 1
kill -KILL "$THERE0"; wait "$THERE0" 2>/dev/null
wait_for 'f["lost"] == ["rack-0"] and not f["moving"] and "lost rack-0" in f["last_reason"]'
wait_ready_is 200
[[ $(served_by) == rack-1 ]] || fail "served by $(served_by) after the server was killed"
answers --services services.yaml --http-port "$HTTP" --seconds 1
kill -TERM "$PID"; wait "$PID" || fail "the gateway ended with $?"
kill -TERM "$THERE1"; wait "$THERE1"

finish

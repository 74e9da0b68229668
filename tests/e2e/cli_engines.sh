# Engines by name: ONNX (by the stand-in for its library, and by the library where packaging/fetch-onnxruntime has put it),
# commands that serve, servers that are there, each measured and served; what doctor says of them.
. "$(dirname "$0")/lib.sh" || exit 1
unset TANGRAM_ONNXRUNTIME

# An engine is usable, or the reason is said.
TANGRAM_ONNXRUNTIME=/nowhere.so expect 0 doctor --output json
python3 - out <<'P' || fail "doctor: $(head -c 600 out)"
import json, sys
found = {(e["engine"], e["device"], e.get("provider")): e for e in json.load(open(sys.argv[1]))["engines"]}
assert "/nowhere.so" in found["onnx", "cpu", "cpu"]["missing"] and not found["onnx", "cpu", "cpu"]["usable"]
assert found["command", "cpu", None] == {"engine": "command", "device": "cpu", "usable": True, "missing": None}
assert not found["onnx", "gpu", "cuda"]["usable"] and found["onnx", "gpu", "cuda"]["missing"]
P
export TANGRAM_ONNXRUNTIME=$FAKE_ONNXRUNTIME
expect 0 doctor --output json; grep -A4 '"engine": "onnx"' out | grep -q '"usable": true' || fail "the stand-in is not usable: $(cat out)"

# A model of the stand-in: what it answers is the sum of all bytes of its inputs.
mkdir m
printf 'input x uint8 -1 -1\noutput y uint8 -1 1\nsteps 1 2\n' >m/sum.onnx
cat >services.yaml <<'S'
services:
  - name: sums
    model: sum
    engine: onnx
    slo: {latency_ms: 20000, percentile: 95}
    traffic: {rate_per_s: 10}
    input_size: {log_normal: {median: 4, sigma: 0.5, max: 16}}
    tensors: {inputs: [{name: x, datatype: UINT8, shape: [-1]}], outputs: [{name: y, datatype: UINT8, shape: [1]}]}
  - name: shout
    model: shout
    engine: command
    command: python3 server.py --port {port} --model shout
    slo: {latency_ms: 20000, percentile: 95}
    traffic: {rate_per_s: 10}
    input_size: {log_normal: {median: 4, sigma: 0.5, max: 16}}
    tensors: {inputs: [{name: INPUT, datatype: FP32, shape: [-1]}], outputs: [{name: OUTPUT, datatype: FP32, shape: [2]}]}
S
cp "$SOURCE/examples/python/function_server.py" server.py
expect 0 validate services.yaml "$SOURCE/examples/python/services.yaml"

measure=(measure --services services.yaml --batches 1,4 --sizes 16 --sampler grid --precision 0.9 --max-repeats 3 --warm-up 1)
expect 0 "${measure[@]}" --model sum --device cpu --profiles 1c --engine onnx --models m -o all.csv
expect 0 "${measure[@]}" --model shout --device cpu --profiles 1c --engine command \
  --command "python3 server.py --port {port} --model shout" -o all.csv
[[ $(wc -l <all.csv) == 5 ]] || fail "expected four rows: $(cat all.csv)"
grep -qE '^cpu,1c,shout,4,16,1,[0-9].*,[0-9.]+$' all.csv || fail "no time to load: $(cat all.csv)"

# A command that ends, one with a word that means nothing, a model that is not there, options of other engines.
expect 3 "${measure[@]}" --model shout --device cpu --profiles 1c --engine command --command "exit 7" -o x.csv; has err "exited with code 7"
expect 2 "${measure[@]}" --model shout --device cpu --profiles 1c --engine command --command "x {prot}" -o x.csv; has err "{prot}"
expect 2 "${measure[@]}" --model shout --device cpu --profiles 1c --engine command -o x.csv; has err "--command COMMAND"
expect 2 "${measure[@]}" --model sum --device cpu --engine onnx --models m --command x -o x.csv; has err "--engine command"
expect 3 "${measure[@]}" --model shout --device cpu --engine onnx --models m -o x.csv; has err "shout.onnx"
expect 2 "${measure[@]}" --model sum --device cpu --engine onnx --models m --onnx-provider cuda --profiles 1c -o x.csv; has err "needs a GPU"

# On a GPU slice: the process sees the MIG device of an idle slice of that profile, and its memory is the limit.
export TANGRAM_FAKE_ORT_LOG=$PWD/ort.log TANGRAM_FAKE_ORT_PROVIDERS=cuda
gpu=(env LD_LIBRARY_PATH="$FAKE_NVML" "$TANGRAM" "${measure[@]}" --model sum --device a100-80gb --engine onnx --models m)
"${gpu[@]}" --profiles 1g.10gb -o gpu.csv >out 2>err || fail "a slice of a GPU: $(cat err)"
grep -q '^cuda MIG-0000000[78]-0000-5000-8000-0000000000a0 limit [1-9]' ort.log || fail "not on the MIG device of a 1g.10gb: $(cat ort.log)"
"${gpu[@]}" --profiles 2g.20gb -o gpu2.csv >out 2>err && fail "a slice that is not there was measured"
has err "tangram apply"
TANGRAM_FAKE_ORT_PROVIDERS=
"${gpu[@]}" --profiles 1g.10gb -o gpu3.csv >out 2>err && fail "without CUDA it was measured all the same"
has err "provider cuda of ONNX Runtime cannot be used"
unset TANGRAM_FAKE_ORT_LOG TANGRAM_FAKE_ORT_PROVIDERS

# Served from two slices with an engine each; a plan that puts both engines on one slice is refused.
slice() { printf '{"profile": "1c", "start": %s, "replicas": [%s]}' "$1" "$2"; }
replica() { printf '{"service": "%s", "processes": 1, "buckets": [{"size_max": 16, "batch_size": 4}]}' "$1"; }
plan() { printf '{"version": 1, "devices": [{"name": "host-0", "type": "cpu", "cores": 2, "memory_gib": 2, "quota": false, "layout": "%s", "slices": [%s]}]}\n' "$1" "$2"; }
plan "1c@0 + 1c@1" "$(slice 0 "$(replica sums)"), $(slice 1 "$(replica shout)")" >plan.json
plan "1c@0" "$(slice 0 "$(replica sums), $(replica shout)")" >together.json
serve=("$TANGRAM" serve plan.json --services services.yaml --measurements all.csv --models m --no-grpc --http-port 0 --metrics-port 0)
"${serve[@]/plan.json/together.json}" >out 2>err && fail "two engines on one slice were served"
has err "sums and shout share"
start() {
  "$@" 2>serve.err &
  server=$!
  for _ in $(seq 600); do grep -q '"event":"ready"' serve.err && break; sleep 0.1; done
  http=$(sed -n 's/.*"event":"serving".*"http":"http:..127.0.0.1:\([0-9]*\)".*/\1/p' serve.err)
  grep -q '"event":"ready"' serve.err || fail "not ready: $(cat serve.err)"
}
ask() { curl -s "localhost:$http/v2/models/$1/infer" -d "$2"; }
start "${serve[@]}"
[[ $(ask sums '{"inputs":[{"name":"x","datatype":"UINT8","shape":[1,3],"data":[1,2,5]}]}') == *'"data":[8]'* ]] || fail "sums: $(cat serve.err)"
shout='{"inputs":[{"name":"INPUT","datatype":"FP32","shape":[1,3],"data":[1,2,5]}]}'
[[ $(ask shout "$shout") == *'"data":[8,5]'* ]] || fail "shout: $(cat serve.err)"
# A server that is killed is started again.
kill -9 -- "-$(sed -n 's/.*"command_ready".*"process":\([0-9]*\).*/\1/p' serve.err)"
for _ in $(seq 600); do [[ $(grep -c '"event":"command_ready"' serve.err) == 2 ]] && break; sleep 0.1; done
[[ $(ask shout "$shout") == *'"data":[8,5]'* ]] || fail "shout after its end: $(cat serve.err)"

# A gateway before this one: measured and served as a server that is there, by its name.
sed 's/model: sum$/model: sums/; s/engine: onnx/engine: remote\n    remote: [{profile: 1c, address: "localhost:PORT"}]/; /name: shout/,$d' services.yaml | sed "s/PORT/$http/" >remote.yaml
expect 0 "${measure[@]/services.yaml/remote.yaml}" --model sums --device a100-80gb --profiles 2g.20gb --engine remote --remote "localhost:$http" -o remote.csv
grep -q '^a100-80gb,2g.20gb,sums,4,16,1,[0-9]' remote.csv || fail "not measured: $(cat remote.csv)"
expect 2 "${measure[@]/services.yaml/remote.yaml}" --model sums --device a100-80gb --profiles 1g.10gb,2g.20gb --engine remote --remote "localhost:$http" -o x.csv
has err "--profiles 2g.20gb"
kill "$server"
wait "$server" || fail "exit $? of the server: $(cat serve.err)"

# The library itself, where it is.
fetched=$SOURCE/build/onnxruntime/libonnxruntime.so.1
if [[ -f $fetched ]]; then
  export TANGRAM_ONNXRUNTIME=$fetched
  expect 0 models make real --format onnx
  expect 0 models inspect real/text-encoder.onnx
  cp out stub.yaml
  expect 0 validate stub.yaml; has stub.yaml "mask: true"
  expect 2 models inspect stub.yaml; has err "not an ONNX model"
  expect 0 measure --device cpu --engine onnx --models real --services real/services.yaml --model text-encoder --profiles 1c \
    --batches 1,4 --sizes 16 --sampler grid --precision 0.5 --max-repeats 3 --warm-up 1 -o real.csv
  grep -qE '^cpu,1c,text-encoder,4,16,.*,13\.[0-9]+,[0-9.]+$' real.csv || fail "no weights of 13 MiB: $(cat real.csv)"
else
  echo "without ONNX Runtime itself: packaging/fetch-onnxruntime"
fi

# What Triton's tools wrote.
printf '{"model_stats":[{"name":"bert","batch_stats":[{"batch_size":2,"compute_input":{"count":2,"ns":2000000},"compute_infer":{"count":2,"ns":10000000},"compute_output":{"count":2,"ns":2000000}}]}]}' >stats.json
expect 2 import triton-statistics stats.json; has err "--model, --device and --profile"
expect 0 import triton-statistics stats.json --model bert --device a100-80gb --profile 2g.20gb -o bert.csv
grep -q '^a100-80gb,2g.20gb,bert,2,1,1,7,' bert.csv || fail "not 7 ms: $(cat bert.csv)"
expect 2 import twitter stats.json --model bert; has err "leave out"
finish

# doctor --self-test on the stand-in driver and the stand-in for ONNX Runtime with CUDA: all steps, and what is said when one fails.
. "$(dirname "$0")/lib.sh" || exit 1
export TANGRAM_STATE=$WORK/state FAKE_NVML_STATE=$WORK/gpus TANGRAM_NVML=$FAKE_NVML/libnvidia-ml.so.1
export TANGRAM_ONNXRUNTIME=$FAKE_ONNXRUNTIME TANGRAM_FAKE_ORT_PROVIDERS=cuda
unset LD_LIBRARY_PATH
FIRST="1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4"
is() {
  local layout
  layout=$(env -u TANGRAM_ONNXRUNTIME -u TANGRAM_FAKE_ORT_PROVIDERS "$TANGRAM" doctor --output json | python3 -c 'import json,sys; print(json.load(sys.stdin)["gpus"][0]["layout"])')
  [[ $layout == "$1" ]] || fail "line ${BASH_LINENO[0]}: GPU 0 is $layout, expected $1"
}
mkdir m
printf 'input x uint8 -1 -1\noutput y uint8 -1 1\nsteps 1 2\n' >m/sum.onnx
cat >m/services.yaml <<'S'
services:
  - name: sums
    model: sum
    slo: {latency_ms: 20000, percentile: 95}
    traffic: {rate_per_s: 10}
    input_size: {log_normal: {median: 4, sigma: 0.5, max: 16}}
    tensors: {inputs: [{name: x, datatype: UINT8, shape: [-1]}], outputs: [{name: y, datatype: UINT8, shape: [1]}]}
S
own=(--models m --model sum --report report.json)

expect 2 doctor --gpu 0; has err "--self-test"
expect 2 doctor --engine torch; has err "--self-test"
expect 2 doctor --self-test; has err "--gpu"
expect 2 doctor --self-test --gpu 0 --models m; has err "belong together"
expect 3 doctor --self-test --gpu 9 "${own[@]}"; has err "this machine has"
TANGRAM_ONNXRUNTIME=/nowhere.so expect 1 doctor --self-test --gpu 0 --report r.json; has out "FAILED  measure"; has r.json "/nowhere.so"
# Without CUDA, the first step that needs it fails, and nothing is left cut.
TANGRAM_FAKE_ORT_PROVIDERS= expect 1 doctor --self-test --gpu 0 "${own[@]}"; has out "FAILED  measure"; has report.json "provider cuda"
expect 2 doctor --self-test --gpu 0 --models m --model none; has err "none"
is "$FIRST"

expect 0 doctor --self-test --gpu 0 "${own[@]}"; has out "all steps passed"; has out "serve under load"
is "$FIRST"
python3 - <<'P' || fail "the report: $(head -c 1500 report.json)"
import json
report = json.load(open("report.json"))
assert report["passed"] and report["restored"] and report["type"] == "a100-80gb" and report["engine"] == "onnx", report
assert [s["step"] for s in report["steps"] if not s["passed"]] == [] and len(report["steps"]) == 6, report["steps"]
assert report["measurements"].count("a100-80gb,1g.10gb,sum,") == 2 == report["measurements"].count("a100-80gb,2g.20gb,sum,")
assert report["machine"]["driver"]["version"] == "570.86.15"
P

# The driver refuses a write in the middle: the answer is no, the step is named, and the GPU is as it was.
FAKE_NVML_FAIL=1:23 expect 1 doctor --self-test --gpu 0 "${own[@]}"; has out "FAILED"; has out "not all steps passed"
python3 - <<'P' || fail "the report of a failure: $(head -c 1500 report.json)"
import json
report = json.load(open("report.json"))
assert not report["passed"] and report["restored"], report
assert "Insufficient Resources" in json.dumps(report["steps"]), report["steps"]
P
is "$FIRST"
finish

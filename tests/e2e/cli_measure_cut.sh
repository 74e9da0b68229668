# measure --cut on a GPU of the stand-in driver: every kind of slice is measured with the fewest cuts, on the slice that
# was made for it, and the GPU is as it was afterwards: at the end, after an error, and after a kill.
. "$(dirname "$0")/lib.sh" || exit 1
export TANGRAM_STATE=$WORK/state FAKE_NVML_STATE=$WORK/gpus TANGRAM_NVML=$FAKE_NVML/libnvidia-ml.so.1
export TANGRAM_ONNXRUNTIME=$FAKE_ONNXRUNTIME TANGRAM_FAKE_ORT_LOG=$PWD/ort.log TANGRAM_FAKE_ORT_PROVIDERS=cuda
unset LD_LIBRARY_PATH
FIRST="1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4"
is() {
  local layout
  layout=$(env -u TANGRAM_ONNXRUNTIME -u TANGRAM_FAKE_ORT_PROVIDERS "$TANGRAM" doctor --output json | python3 -c 'import json,sys; print(json.load(sys.stdin)["gpus"][0]["layout"])')
  [[ $layout == "$1" ]] || fail "line ${BASH_LINENO[0]}: GPU 0 is $layout, expected $1"
}
mkdir m
printf 'input x uint8 -1 -1\noutput y uint8 -1 1\nsteps 1 2\n' >m/sum.onnx
cat >services.yaml <<'S'
services:
  - name: sums
    model: sum
    slo: {latency_ms: 20000, percentile: 95}
    traffic: {rate_per_s: 10}
    input_size: {log_normal: {median: 4, sigma: 0.5, max: 16}}
    tensors: {inputs: [{name: x, datatype: UINT8, shape: [-1]}], outputs: [{name: y, datatype: UINT8, shape: [1]}]}
S
measure=(measure --services services.yaml --model sum --device a100-80gb --engine onnx --models m --batches 1,4 --sizes 16
  --sampler grid --precision 0.9 --max-repeats 3 --warm-up 1 --max-measurements 30)

# Nothing is cut without being asked for, and not without the name of a GPU.
expect 2 "${measure[@]}" -o a.csv; has err "--cut"
expect 2 "${measure[@]}" --cut -o a.csv; has err "--gpu"
expect 2 "${measure[@]}" --state s -o a.csv; has err "--cut"
expect 2 measure --services services.yaml --model sum --device cpu --engine onnx --models m --cut --gpu 0 -o a.csv; has err "applies to GPUs"
expect 3 "${measure[@]}" --cut --gpu 7 -o a.csv; has err "--gpu 7: this machine has"
expect 2 "${measure[@]}" --cut --gpu 1 -o a.csv; has err "h100-80gb"
is "$FIRST"

# 1g and 3g are there; 4g + 2g, and 7g, are a cut each.
expect 0 "${measure[@]}" --cut --gpu 0 -o all.csv; has err "2 cuts for 5 MigProfiles"
is "$FIRST"
[[ -z $(ls state/borrowed/before-* 2>/dev/null) ]] || fail "the note of how it was is left behind"
for profile in 1g.10gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb; do
  [[ $(grep -c "^a100-80gb,$profile,sum," all.csv) == 2 ]] || fail "$profile was not measured: $(cat all.csv)"
done
# Each process saw a MIG device of its own, five different ones.
[[ $(grep -o 'cuda MIG-[^ ]*' ort.log | sort -u | wc -l) -ge 5 ]] || fail "not on five MIG devices: $(cat ort.log)"
# All is known: nothing is cut again.
expect 0 "${measure[@]}" --cut --gpu 0 -o all.csv; has err "0 cuts for"

# The driver refuses a step: the GPU is given back, and what was measured stays.
rm -rf gpus; is "$FIRST"
FAKE_NVML_FAIL=3:23 expect 3 "${measure[@]}" --cut --gpu 0 -o refused.csv; has err "Insufficient Resources"
is "$FIRST"
[[ $(grep -c "^a100-80gb,1g.10gb,sum," refused.csv) == 2 ]] || fail "measured before the refusal: $(cat refused.csv)"

# Killed in the middle: the same command goes on where it was, and restores the cuts of before.
rm -rf gpus; is "$FIRST"
printf 'input x uint8 -1 -1\noutput y uint8 -1 1\nsteps 1 200\n' >m/sum.onnx
"$TANGRAM" "${measure[@]}" --cut --gpu 0 -o killed.csv >/dev/null 2>killed.err &
PID=$!
for ((i = 0; i < 600; ++i)); do
  grep -q "^a100-80gb,2g.20gb" killed.csv 2>/dev/null && break
  sleep 0.1
done
kill -KILL $PID; wait $PID 2>/dev/null
[[ -n $(ls state/borrowed/before-*.json) ]] || fail "no note of how it was: $(cat killed.err)"
before=$(wc -l <killed.csv)
expect 0 "${measure[@]}" --cut --gpu 0 -o killed.csv; has err "did not give GPU 0 back"
is "$FIRST"
[[ $(wc -l <killed.csv) -gt $before && $(grep -c "^a100-80gb," killed.csv) == 10 ]] || fail "it did not go on: $(cat killed.csv)"

# By hand, after a kill: the note is a checkpoint.
"$TANGRAM" "${measure[@]}" --cut --gpu 0 -o again.csv >/dev/null 2>killed.err &
PID=$!
for ((i = 0; i < 600; ++i)); do
  grep -q "^a100-80gb,2g.20gb" again.csv 2>/dev/null && break
  sleep 0.1
done
kill -KILL $PID; wait $PID 2>/dev/null
expect 0 rollback --checkpoint "$(ls state/borrowed/before-*.json)"; is "$FIRST"
finish

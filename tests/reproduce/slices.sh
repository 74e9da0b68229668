# Training on slices that are lent for a while: the same work on fewer GPU-hours, every promise kept.
source "$SOURCE/tests/e2e/lib.sh"
needs_data parvagpu/profiles.csv parvagpu/scenarios.csv miso/train_iteration_time.csv

expect 0 reproduce slices --data "$DATA" --quick --output json
python3 - <<'P' || fail "the figures of slices do not hold"
import json
whole, slices = json.load(open("out"))
assert (whole["mode"], slices["mode"]) == ("whole_gpu", "slices") and whole["scenario"] == slices["scenario"]
assert whole["training_throughput"] == slices["training_throughput"] > 0
assert slices["gpu_hours"] < whole["gpu_hours"], slices
assert slices["slo_kept"] and whole["slo_kept"] and slices["slo_attainment"] >= 0.99, slices
P
finish

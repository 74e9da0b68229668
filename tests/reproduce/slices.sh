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
# Space that no service was given is counted apart from lent slices, and only slices can use it. GPUs for training alone
# are charged at the speed of their fastest cut: 3g + 2g + 2g train 1.39 times as fast as an uncut GPU.
assert slices["unplanned_gpu_hours"] > 0 and slices["training_on_unplanned_gpu_hours"] > 0, slices
assert whole["unplanned_gpu_hours"] == whole["training_on_unplanned_gpu_hours"] == 0, whole
assert abs(slices["dedicated_gpu_speed"] - 1.39) < 0.005, slices
for mode in (whole, slices):
    missing = 24 * mode["training_throughput"] - mode["training_on_lent_gpu_hours"] - mode["training_on_unplanned_gpu_hours"]
    assert abs(mode["gpu_hours"] - 24 * mode["gpus"] - missing / mode["dedicated_gpu_speed"]) < 1e-6, mode
P
finish

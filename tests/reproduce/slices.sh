# Training on slices that are lent for a while: the same work on fewer GPU-hours, every promise kept. The figures of
# docs/results/slices.md, for all four scenarios.
source "$SOURCE/tests/e2e/lib.sh"
needs_data parvagpu/profiles.csv parvagpu/scenarios.csv miso/train_iteration_time.csv

expect 0 reproduce slices --data "$DATA" --full --output json
python3 - <<'P' || fail "the figures of slices do not hold"
import json
rows = {(r["scenario"], r["mode"]): r for r in json.load(open("out"))}
# GPUs; space that is never planned and training there; slices on loan and training there; GPU-hours with whole GPUs and
# with slices, and the same with a plan for every hour; saved, saved by lending alone, saved with a plan for every hour (%).
published = {
    "SLO1": (2, 18.0, 27.1, 1.1, 1.6, 68.7, 48.0, 58.8, 48.0, 30, 2, 18),
    "SLO2": (3, 12.0, 14.8, 7.5, 10.8, 90.5, 72.0, 82.9, 72.0, 20, 10, 13),
    "SLO3": (5, 21.0, 28.3, 7.3, 10.5, 148.0, 120.0, 131.8, 120.0, 19, 6, 9),
    "SLO4": (6, 6.0, 9.2, 11.0, 15.8, 162.0, 144.0, 153.8, 144.0, 11, 7, 6),
}
modes = ("whole_gpu", "slices", "whole_gpu_replanned", "slices_replanned")
assert set(rows) == {(scenario, mode) for scenario in published for mode in modes}, sorted(rows)
def near(got, wanted, what): assert abs(got - wanted) <= 0.02 * wanted + 0.1, (scenario, what, got, wanted)
for scenario, (gpus, space, space_training, loan, loan_training, *hours, saved, by_lending, saved_hourly) in published.items():
    whole, slices, whole_hourly, slices_hourly = of = [rows[scenario, mode] for mode in modes]
    assert all(mode["gpus"] == gpus for mode in of), (scenario, [mode["gpus"] for mode in of])
    near(slices["unplanned_gpu_hours"], space, "never planned")
    near(slices["training_on_unplanned_gpu_hours"], space_training, "training there")
    near(slices["lent_gpu_hours"], loan, "on loan")
    near(slices["training_on_lent_gpu_hours"], loan_training, "training on loan")
    for mode, wanted in zip(of, hours): near(mode["gpu_hours"], wanted, mode["mode"])
    # The same work in both modes of a pair; no whole GPU is ever idle, and space is only of use to slices.
    assert whole["training_throughput"] == slices["training_throughput"] > 0, (whole, slices)
    assert whole["lent_gpu_hours"] == whole["unplanned_gpu_hours"] == whole["training_on_unplanned_gpu_hours"] == 0, whole
    for mode in (whole, slices): assert mode["slo_kept"] and mode["slo_attainment"] >= 0.999, mode
    # GPUs for training alone are charged at the speed of their fastest cut, 3g + 2g + 2g.
    assert abs(slices["dedicated_gpu_speed"] - 1.39) < 0.005, slices
    nothing_lent = 24 * gpus + slices["training_on_lent_gpu_hours"] / slices["dedicated_gpu_speed"]
    for got, wanted in ((1 - slices["gpu_hours"] / whole["gpu_hours"], saved), (1 - slices["gpu_hours"] / nothing_lent, by_lending),
                        (1 - slices_hourly["gpu_hours"] / whole_hourly["gpu_hours"], saved_hourly)):
        assert abs(100 * got - wanted) <= 1, (scenario, got, wanted)
P
finish

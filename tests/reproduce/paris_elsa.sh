# PARIS and ELSA (DAC'22): the rates of the reference simulator, within 5 % (bert 10 %, at the edge of its capacity).
source "$SOURCE/tests/e2e/lib.sh"
needs_data parvagpu/profiles.csv

expect 0 reproduce paris-elsa --data "$DATA" --output json
python3 - <<'P' || fail "the figures of PARIS and ELSA do not hold"
import json
# Model, mu, sigma: the best homogeneous cut under FIFS, GPU(7) under FIFS, PARIS under FIFS and under ELSA. 0: no rate at all.
reference = {
    ("mobilenetv2", 1.0, 0.9): {("homogeneous-2", "fifs"): 1967, ("homogeneous-7", "fifs"): 454, ("paris", "fifs"): 0, ("paris", "elsa"): 2300},
    ("resnet50", 1.0, 0.9): {("homogeneous-2", "fifs"): 3076, ("homogeneous-7", "fifs"): 1085, ("paris", "fifs"): 0, ("paris", "elsa"): 3328},
    ("bert", 1.0, 0.9): {("homogeneous-1", "fifs"): 1009, ("homogeneous-7", "fifs"): 237, ("paris", "fifs"): 526, ("paris", "elsa"): 557},
    ("mobilenetv2", 1.5, 0.3): {("homogeneous-1", "fifs"): 3116, ("paris", "elsa"): 2667},
    ("mobilenetv2", 1.5, 0.9): {("homogeneous-3", "fifs"): 1278, ("paris", "elsa"): 1620},
    ("mobilenetv2", 1.5, 1.8): {("homogeneous-3", "fifs"): 1155, ("paris", "elsa"): 1335},
    ("resnet50", 1.5, 0.3): {("homogeneous-2", "fifs"): 3056, ("paris", "elsa"): 3075},
    ("resnet50", 1.5, 0.9): {("homogeneous-3", "fifs"): 2179, ("paris", "elsa"): 2087},
    ("resnet50", 1.5, 1.8): {("homogeneous-3", "fifs"): 1831, ("paris", "elsa"): 2051},
    ("inceptionv3", 1.5, 0.9): {("homogeneous-3", "fifs"): 1514, ("paris", "elsa"): 2157},
    ("vgg16", 1.5, 0.9): {("homogeneous-3", "fifs"): 1647, ("paris", "elsa"): 1520},
}
cuts = {"mobilenetv2": [10, 2, 1, 0, 1], "resnet50": [24, 2, 2, 0, 2], "bert": [10, 4, 1, 0, 3]}  # PARIS at mu 1.0.
answer = {(s["model"], s["mu"], s["sigma"]): s for s in json.load(open("out"))}
assert set(answer) == set(reference), set(answer) ^ set(reference)
for key, figures in reference.items():
    setting = answer[key]
    results = {(r["partitioning"], r["policy"]): r for r in setting["results"] if r["partitioning"] != "elastic"}
    for r in setting["results"]:
        assert list(r["slices"]) == ["1g", "2g", "3g", "4g", "7g"], r["slices"]
        assert sum(int(name[0]) * count for name, count in r["slices"].items()) <= setting["compute_slices"], r
    if key[1] == 1.0: assert list(results["paris", "elsa"]["slices"].values()) == cuts[key[0]], results["paris", "elsa"]
    for cell, qps in figures.items():
        got, limit = results[cell]["qps"], 0.10 if key[0] == "bert" else 0.05
        assert got == 0 if qps == 0 else abs(got / qps - 1) <= limit, (key, cell, got, qps)
P
finish

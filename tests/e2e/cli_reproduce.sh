# Published results. The public data is not part of the repository: without it only the refusal is tried.
source "$SOURCE/tests/e2e/lib.sh"

expect 3 reproduce paris-elsa --data nowhere
empty out; has err "nowhere/parvagpu/profiles.csv: cannot read: no such file or directory"; has err "--data names the folder"
expect 2 reproduce paris-elsa; has err "--data is required"
expect 2 reproduce paris-else --data .; has err "paris-elsa"

DATA=${TANGRAM_DATA:-$SOURCE/../shared/data}
if [[ ! -f $DATA/parvagpu/profiles.csv || -n ${ASAN_OPTIONS+set}${TSAN_OPTIONS+set} ]]; then
  echo "skipped the figures: no data, or too slow under a sanitizer"
  finish; exit
fi
expect 0 reproduce paris-elsa --data "$DATA" --output json
python3 - <<'P' || fail "the figures do not hold"
import json
answer = json.load(open("out"))
assert len(answer) == 11
for setting in answer:
    assert {"model", "mu", "sigma", "results"} <= set(setting)
    qps = {(r["partitioning"], r["policy"]): r["qps"] for r in setting["results"]}
    assert len(qps) == 18
    for r in setting["results"]:
        assert list(r["slices"]) == ["1g", "2g", "3g", "4g", "7g"], r["slices"]
        used = sum(int(name[0]) * count for name, count in r["slices"].items())
        assert used <= setting["compute_slices"], r
        if "reference_qps" not in r: continue
        limit = 0.10 if setting["model"] == "bert" else 0.05
        ok = r["qps"] == 0 if r["reference_qps"] == 0 else abs(r["qps"] / r["reference_qps"] - 1) < limit
        assert ok, (setting["model"], r)
    for (cut, policy), value in qps.items():
        assert qps[cut, "tangram"] >= value, (setting["model"], setting["mu"], setting["sigma"], cut, policy)
P
finish

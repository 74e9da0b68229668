# The real way to the driver library: dlopen, found by the dynamic linker.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}

expect 0 doctor; has out "Host"; has out "What follows"

export LD_LIBRARY_PATH=$FAKE_NVML
expect 0 doctor
has out "570.86.15"
has out "GPU 0: NVIDIA A100-SXM4-80GB"
has out "1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4"
has out "the driver calls 7g.80gb 7g.79gb"
has out "GPU 1: NVIDIA H100 80GB HBM3"
has out "off, on after the next reset"
has out "agree"
expect 0 doctor --output json
python3 - <<'P' || fail "the JSON is not what the driver said"
import json
report = json.load(open("out"))
first, second = report["gpus"]
assert first["type"] == "a100-80gb" and second["type"] == "h100-80gb"
assert first["layout"] == "1g.10gb@0 + 1g.10gb@1 + 3g.40gb@4", first["layout"]
assert [slice["start"] for slice in first["slices"]] == [0, 1, 4]
assert first["mig_enabled"] and not second["mig_enabled"] and second["mig_enabled_after_reset"]
assert first["differences"] == ["the driver calls 7g.80gb 7g.79gb"], first["differences"]
assert second["differences"] == [], second["differences"]
assert report["driver"] == {"found": True, "version": "570.86.15", "problem": None}
P

# The PCIe board has 114 multiprocessors: it is known by its cuts, and what the SXM board has is not claimed for it.
FAKE_NVML_PCIE=1 expect 0 doctor; has out "cut like h100-80gb"; has out "1g.10gb has 16 multiprocessors, the table has unknown"
has out "GPU 1 has the cuts of h100-80gb"

FAKE_NVML_INIT=9 expect 0 doctor; has out "the NVIDIA driver does not answer: Driver Not Loaded"
FAKE_NVML_INSTANCES=4 expect 0 doctor; has out "cannot list its slices: Insufficient Permissions"

# A library of that name that has none of the functions: every question is answered "not supported".
mkdir hollow
if command -v cc >/dev/null && echo 'int unrelated;' | cc -x c -shared -o hollow/libnvidia-ml.so.1 - 2>/dev/null; then
  LD_LIBRARY_PATH=hollow expect 0 doctor; has out "does not answer"
fi
finish

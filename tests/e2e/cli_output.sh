# What programs read: JSON and YAML of every verb that answers with values.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

json() { python3 -c 'import json,sys; json.load(open("out"))' || fail "no JSON: $*"; }

expect 0 geometry a100-40gb --set base --count --output json
[[ $(cat out) == '{"valid":298,"maximal":19,"multisets":38,"pareto":12}' ]] || fail "counts: $(cat out)"
expect 0 geometry a100-40gb --set double --count --output json
[[ $(cat out) == '{"valid":723,"maximal":78,"multisets":78,"pareto":28}' ]] || fail "counts: $(cat out)"
expect 0 geometry a100-40gb --set me --count --output json
[[ $(cat out) == '{"valid":2319,"maximal":239,"multisets":128,"pareto":44}' ]] || fail "counts: $(cat out)"
expect 0 geometry a30 --set me --count --output json
[[ $(cat out) == '{"valid":76,"maximal":17,"multisets":20,"pareto":8}' ]] || fail "counts: $(cat out)"

for arguments in "geometry" "geometry h100-80gb" "geometry cpu --cores 2" "geometry a30 --layout 1g@0" \
                 "geometry a30 --place 2g" "validate $SOURCE/examples/fleet.yaml" "import" "schema" "schema fleet" \
                 "doctor" "version" "demo --hours 0.2" "policies"; do
  expect 0 $arguments --output json; json "$arguments"; empty err
  expect 0 $arguments --output yaml; [[ -s out ]] || fail "no YAML: $arguments"
  expect 0 $arguments
  grep -q $'\x1b' out && fail "colour without a terminal: $arguments"
done
printf 'devices: 3\n' > wrong.yaml
expect 2 validate wrong.yaml --output json; json; has out '"valid": false'

# A terminal gets colour unless it or its owner does not want it.
terminal() { script -qec "$*" /dev/null </dev/null > out 2>&1; }
if command -v script >/dev/null; then
  TERM=xterm-256color terminal "$TANGRAM geometry a30"; grep -q $'\x1b\[38;5' out || fail "no colour on a terminal"
  TERM=xterm-256color NO_COLOR=1 terminal "$TANGRAM geometry a30"; grep -q $'\x1b\[' out && fail "colour despite NO_COLOR"
  TERM=xterm-256color terminal "$TANGRAM geometry a30 --no-color"; grep -q $'\x1b\[' out && fail "colour despite --no-color"
  TERM=dumb terminal "$TANGRAM geometry a30"; grep -q $'\x1b\[' out && fail "colour on a dumb terminal"
fi

TANGRAM_OUTPUT=json expect 0 version; json; has out '"version"'
TANGRAM_OUTPUT=nonsense expect 2 version; has err "TANGRAM_OUTPUT"

# The reference pages are what the program says of itself.
expect 0 reference cli
cmp -s out "$SOURCE/docs/reference/cli.md" || fail "docs/reference/cli.md is stale: write it with tangram reference cli"
expect 0 geometry a100-80gb --svg picture.svg
cmp -s picture.svg "$SOURCE/docs/images/a100-80gb.svg" || fail "docs/images/a100-80gb.svg is stale: write it with --svg"
finish

# How the program ends, and on which stream it says why.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

expect 0; has out "Usage: tangram VERB"; empty err
expect 0 --help; has out "Exit codes"
expect 0 --version; has out "tangram "
expect 2 geometri; empty out; has err "did you mean geometry?"
expect 2 geometry --colour; empty out; has err "unknown option --colour"
expect 2 geometry no-such-type; empty out; has err "known: a30"
expect 2 geometry a100-8gb; has err "did you mean a100-80gb?"
expect 2 validate; has err "FILE is required"
expect 2 geometry a30 --output xml; has err "is not one of table, json, yaml"
expect 1 geometry a100-80gb --layout "7g@0" --place 1g

expect 3 validate missing.yaml; empty out; has err "missing.yaml: cannot read: no such file or directory"
expect 3 validate .; has err "is a directory"
printf 'devices:\n  - type: a100-40gb\n    layout: 3g.20gb@2\n  - tpye: a30\n' > wrong.yaml
expect 2 validate wrong.yaml; empty out; has err "3g.20gb cannot start at 2; allowed: 0, 4"; has err "type"
grep -qE '^wrong\.yaml:3:[0-9]+: ' err || fail "no place before the problem: $(cat err)"
[[ $(wc -l <err) -ge 2 ]] || fail "not every problem is reported: $(cat err)"
echo "what is this" > unclear
expect 2 validate unclear; has err "unclear:1:1: cannot tell the kind"

# A file that is missing outweighs one that is wrong, and neither hides the other.
expect 3 validate wrong.yaml missing.yaml; has err "wrong.yaml:3"; has err "missing.yaml"

for example in fleet.yaml services.yaml measurements.csv trace.csv plan.json; do
  expect 0 validate "$SOURCE/examples/$example"; has out "$example: "; empty err
done
expect 0 validate --quiet "$SOURCE/examples/fleet.yaml"; empty out; empty err
"$TANGRAM" validate - < "$SOURCE/examples/fleet.yaml" > out 2> err || fail "standard input is not read: $(cat err)"
expect 2 import no-such-format x; has err "unknown format"
expect 0 import; has out "parvagpu"
finish

# `tangram reproduce` without its data. The published figures are asserted in tests/reproduce.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

expect 3 reproduce paris-elsa --data nowhere
empty out; has err "nowhere/parvagpu/profiles.csv: cannot read: no such file or directory"; has err "--data names the folder"
expect 3 reproduce paris-elsa; has err "../shared/data/parvagpu/profiles.csv"
expect 2 reproduce paris-else --data .; has err "paris-elsa"
mkdir nothing
expect 3 reproduce slices --data nothing; has err "--data names the folder"
finish

# The program itself: what it carries, and that it can be moved.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

# Where it was built is known to nobody it is given to.
grep -qF -- "$SOURCE" "$TANGRAM" && fail "the program holds the folder of its source: $(strings "$TANGRAM" | grep -F -- "$SOURCE" | head -n 3)"

# Elsewhere, it finds the examples where the user stands, and says how to name them otherwise.
mkdir bin
cp "$TANGRAM" bin/tangram
TANGRAM=$WORK/bin/tangram
expect 3 demo; has err "set TANGRAM_SHARE"
TANGRAM_SHARE=$SOURCE expect 0 demo --quiet
cp -r "$SOURCE/examples" .
expect 0 demo --quiet
finish

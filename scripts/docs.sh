#!/usr/bin/env bash
# Writes the pages and pictures of docs/ that are generated from tables and models and committed, then builds the site in build/docs/html.
# With an argument only a part: "pages", "site", or "measured" (pictures that run the hardware, which takes minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
write() {       # module, page
    .venv/bin/python -m "$1" >"$2.new"
    mv "$2.new" "$2"
    echo "wrote $2"
}
heddle_svg() {  # picture, command
    .venv/bin/heddle "${@:2}" --svg "$1" >/dev/null
    echo "wrote $1"
}
if [ "$what" = all ] || [ "$what" = pages ]; then
write heddle_sim.docgen.instructions docs/isa.md
write heddle_sim.docgen.host_interface docs/registers.md
write heddle_sim.docgen.tensor_rules docs/tensor-errors.md
.venv/bin/python -m heddle_sim.docgen.figure_tables
echo "wrote tables of figures"
heddle_svg docs/images/swizzle.svg show tensormap --shape 8 128 --box 8 128 --swizzle 128B --access column
heddle_svg docs/images/recurrent-threads.svg show rnn --config recurrent64 --cell gru --hidden 16 --threads 2 --steps 5
heddle_svg docs/images/rnn-plan.svg bench rnn-plan --hidden 64,128,256,512,1024,2048
heddle_svg docs/images/convolution-windows.svg show conv --size 5,5 --channels 1 --outputs 1 --filter 3,3 --pads 1 --strides 2 --layout NHWC --threads 4
.venv/bin/python -m heddle_sim.docgen.timing docs/images/timing
echo "wrote docs/images/timing"
fi
if [ "$what" = measured ]; then
    .venv/bin/heddle bench conv --quiet --plot docs/images/convolution-costs.svg >/dev/null
    echo "wrote docs/images/convolution-costs.svg"
    .venv/bin/heddle bench spmm --quiet --plot docs/images/sparse-break-even.svg >/dev/null
    echo "wrote docs/images/sparse-break-even.svg"
fi
if [ "$what" = all ] || [ "$what" = site ]; then
    .venv/bin/python -m heddle_sim.docgen.site
    echo "wrote build/docs/html/index.html"
fi

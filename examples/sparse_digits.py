"""Handwritten digits by a pruned network that is fine-tuned on the device: ``python examples/sparse_digits.py --help``."""

import sys

from heddle_sim.demo.sparse_digits import main

if __name__ == "__main__":
    sys.exit(main())

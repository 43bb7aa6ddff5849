"""Handwritten digits on the device: ``python examples/digits.py --help``."""

import sys

from heddle_sim.demo.digits import main

if __name__ == "__main__":
    sys.exit(main())

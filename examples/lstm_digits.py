"""Handwritten digits read row by row by an LSTM on the device: ``python examples/lstm_digits.py --help``."""

import sys

from heddle_sim.demo.lstm_digits import main

if __name__ == "__main__":
    sys.exit(main())

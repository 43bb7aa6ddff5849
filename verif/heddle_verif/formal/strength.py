"""How strong the proofs are: units are broken in many places and each proof has to notice.

``python -m heddle_verif.formal.strength [name …]``: Yosys breaks one cell of the unit (never of the specification) in each of a number of
mutants; property-directed reachability has to refute the specification. A mutant that is still proved either changes nothing that
the unit can do, or something that the proof does not look at.
"""

import re
import sys
import tempfile
from pathlib import Path

from heddle.emit import emit_rtlil
from heddle.yosys import run_yosys

from .proofs import PROOFS
from .prove import decide

__all__ = ["main", "mutants", "still_proved"]


def mutants(proof, count, seed=1):
    """Yosys commands, each of which breaks one cell of the unit; at most ``count``."""
    commands = ["hierarchy -check -top top", "proc", "opt_clean", f"mutate -list {count} -seed {seed} -o mutants.txt top.*",
                "tee -o contents.txt select -list t:$meminit*"]
    texts = run_yosys(emit_rtlil(proof.make(), "top"), commands, outputs=["mutants.txt", "contents.txt"], timeout_s=300)
    # What a memory holds after configuration has to be constant.
    contents = {tuple(line.split("/", 1)) for line in texts["contents.txt"].splitlines()}
    lines = [line for line in texts["mutants.txt"].splitlines() if line.startswith("mutate ")]
    return [line for line in lines if tuple(re.search(r"-module (\S+) -cell (\S+)", line).groups()) not in contents]


def still_proved(proof, mutant):
    """Whether the specification holds for the broken unit; None when that was not decided within the limit."""
    with tempfile.TemporaryDirectory(prefix="heddle-proof-") as directory:
        return decide(emit_rtlil(proof.make(), "top"), Path(directory), proof.limit_s, mutant)[0]


def main(arguments=None, count=12):
    """Print refuted and surviving mutants of each proof."""
    for name in (arguments if arguments is not None else sys.argv[1:]) or PROOFS:
        commands = mutants(PROOFS[name], count)
        survivors = [command for command in commands if still_proved(PROOFS[name], command) is not False]
        print(f"{name}: {len(commands) - len(survivors)} of {len(commands)} mutants refuted", flush=True)
        for command in survivors:
            print(f"    {command}", flush=True)


if __name__ == "__main__":
    main()

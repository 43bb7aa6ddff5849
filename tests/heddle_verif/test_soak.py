"""``make soak``: rounds by seed until the time is over; what is left for it is in no other run."""

import pytest
from heddle_verif.soak import main, run_rounds


def rounds(statuses, hours=1, minutes=25):
    """Exit status, arguments of the rounds, and what was said; each round takes ``minutes``."""
    calls, said, now = [], [], [0.0]

    def run(arguments, seconds):
        calls.append(arguments)
        now[0] += 60 * minutes
        return None if 60 * minutes > seconds else statuses[len(calls) - 1]

    status = run_rounds(hours, 5, 2, run, clock=lambda: now[0], report=said.append)
    return status, [call[call.index("--seed") + 1] for call in calls], [call[call.index("-m") + 1] for call in calls], said[-1]


def test_rounds_have_seeds():
    status, seeds, marks, said = rounds([0] * 9)
    assert (status, seeds, marks) == (0, ["5", "6", "7"], ["soak", "soak and not once", "soak and not once"])
    assert said == "soak: the time is over in the round of seed 7; 2 rounds before it passed"


def test_a_failure_ends_it():
    status, seeds, _, said = rounds([0, 1, 0])
    assert (status, seeds) == (1, ["5", "6"]) and "SEED=6" in said


def test_no_test_at_all_is_a_failure():
    assert rounds([5])[0] == 1      # pytest's status where nothing was collected


@pytest.mark.parametrize("wrong", [["--hours", "0"], ["--seed", "-1"]])
def test_wrong_use(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2 and "must be positive" in capsys.readouterr().err


def test_soak_is_in_neither_test_nor_nightly(request):
    marked = [item for item in request.session.items if item.get_closest_marker("soak")]
    assert all(item.get_closest_marker("nightly") for item in marked)

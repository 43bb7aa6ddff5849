"""Every rule of tensor copies is broken once, alone: in the builder, in 128 bytes of memory where they can break it, in a request."""

from dataclasses import replace

import pytest
from heddle.isa.tensor_descriptor import TensorMode
from heddle.isa.tensor_rules import RULES
from heddle_sim.golden.tensor_checks import Violation, first_violation, request_violations
from heddle_sim.tensor.tensor_map import TensorMap, TensorMapError
from heddle_verif.stimulus.tensor_rule_cases import DESCRIPTORS, IM2COL, IN_IM2COL, IN_TILE, INSIDE, REQUESTS, SHARED_BYTES, TILE, bytes_of

CODES = {code.name.removeprefix("TENSOR_"): code for code in RULES}


def test_every_rule_has_one_case():
    assert sorted([*DESCRIPTORS, *REQUESTS]) == sorted(CODES)


def test_the_rest_of_a_case_breaks_no_rule():
    for fields, request in ((TILE, IN_TILE), (IM2COL, IN_IM2COL), (INSIDE, replace(IN_IM2COL, store=True))):
        assert TensorMap(fields).fields == fields
        assert first_violation(fields, request, SHARED_BYTES, 32) is None


@pytest.mark.parametrize("name", CODES)
def test_rule(name):
    """One violation of this rule and no other, with value and dimension, in the words of the table [S1.4]."""
    rule = RULES[CODES[name]]
    if name in REQUESTS:
        fields, request, value, dimension = REQUESTS[name]
        assert TensorMap(fields).fields == fields
        found = request_violations(fields, request, SHARED_BYTES, 32)
    else:
        fields, value, dimension = DESCRIPTORS[name]
        request = IN_IM2COL if fields.mode == TensorMode.IM2COL else IN_TILE
        with pytest.raises(TensorMapError) as error:
            TensorMap(fields)
        found = list(error.value.violations)
        if rule.encoded:        # so do the 128 bytes
            with pytest.raises(TensorMapError) as error:
                TensorMap.from_cutensormap(bytes_of(fields))
            assert list(error.value.violations) == found
    assert found == [Violation(CODES[name], value, dimension)]
    assert (dimension is not None) == rule.dimension
    place = f" of dimension {dimension}" if rule.dimension else ""
    assert str(found[0]).endswith(f"{rule.field}{place} must {rule.text}, not {getattr(value, 'name', value)}")
    if rule.encoded and name != "BYTES":        # hardware says that shared memory has no room
        assert first_violation(fields, request, SHARED_BYTES, 32) == found[0]

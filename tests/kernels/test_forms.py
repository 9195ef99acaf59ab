"""Kernels are compiled for the combinations of types that are meant, and all of them ahead of time.

`forms.py` lists the forms that a lattice of fits asks for, and those that ``python -m hardwood.warm`` compiles.
"""

from __future__ import annotations

import pytest

from forms import Forms, list_forms, list_kernels

# How many forms a growing kernel has: one unless it is listed here. What decides: codes take one byte or two; some
# features are categories or none is; errors are squared or absolute. A form costs every user seconds: a number that
# grows wants a reason.
CODES = CATEGORIES = ERRORS = 2
SPECIAL = "grow.frame.kernels.trees_with_categories_or_missing_values"
N_FORMS = {
    "grow.binning.encode": CODES,
    # classes on bins
    f"{SPECIAL}.grow": CODES,
    f"{SPECIAL}.count_all": CODES,
    f"{SPECIAL}.tally_nodes": CODES,
    f"{SPECIAL}.descend": CODES,
    # numbers
    "grow.sweep.grow": ERRORS,
    "grow.binned_numbers.grow": CODES * CATEGORIES,
    # boosting
    "grow.boosting.grow": CODES * CATEGORIES,
    "grow.boosting.bound_values": CODES,
    "grow.boosting_levels.count_root": CODES,
    "grow.boosting_levels.divide_nodes": CODES,
    "grow.boosting_levels.split_nodes": CATEGORIES,
}


@pytest.fixture(scope="module")
def asked() -> Forms:
    """The forms that fits ask for."""
    return list_forms("fit", "warm")["fit"]


@pytest.fixture(scope="module")
def compiled_ahead() -> Forms:
    """The forms that are compiled ahead."""
    return list_forms("fit", "warm")["warm"]


def test_no_kernel_has_more_forms_than_are_meant(asked: Forms) -> None:
    """Two came to be without being meant, and cost whoever fitted seconds.

    Boosting with numbers beside categories handed over ends of reach in Fortran's order, because that is how a mask
    picks columns; with `blank`, it handed over flags that could not be written to, without it flags that could. A tree
    of 300 classes, of which a byte cannot tell which is which, was a form of its own, too.
    """
    assert set(asked) >= {name for name in list_kernels() if name.startswith("grow.")}
    assert {name: len(forms) for name, forms in asked.items()} == {name: N_FORMS.get(name, 1) for name in asked}


def test_all_that_fits_need_is_compiled_ahead(asked: Forms, compiled_ahead: Forms) -> None:
    """`python -m hardwood.warm` left half of the forms of many classes to the first fit, in read-only images, too."""
    left_out = {name: [form for form in asked[name] if form not in compiled_ahead[name]] for name in asked}
    assert {name: forms for name, forms in left_out.items() if forms} == {}


def test_nothing_is_compiled_ahead_in_vain(asked: Forms, compiled_ahead: Forms) -> None:
    """What warming compiles for growers, some fit asks for."""
    in_vain = {name: len(compiled_ahead[name]) - len(asked[name]) for name in asked if name.startswith("grow.")}
    assert {name: number for name, number in in_vain.items() if number} == {}


@pytest.mark.parametrize("work", ["fit", "warm"])
def test_the_arrays_of_an_argument_differ_in_what_they_hold_only(work: str) -> None:
    """Their order in memory, whether they can be written to and whether they are aligned is decided once."""
    for name, forms in list_forms("fit", "warm")[work].items():
        for argument in forms[0]:
            given = {form[argument] for form in forms if "]" in form.get(argument, "")}
            assert len({each.partition("[")[2] for each in given}) <= 1, (name, argument, given)

"""What an attacker may do to a row: in the user's words, and as arrays for one table."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.quoting import quote, shorten
from hardwood.table import Schema
from hardwood.texts import read_text
from hardwood.threat.attackers import find_attacking_classes, find_attacking_rows, find_targets, read_classes
from hardwood.threat.groups import add_groups, leave_out, leave_to_groups
from hardwood.threat.options import Options, find_given, list_options
from hardwood.threat.priced_reach import PricedReach
from hardwood.threat.reach import Reach
from hardwood.threat.resolve import (
    PlacedRules,
    add_labels,
    check_categories_known,
    extend_schema,
    place_entries,
    place_rules,
    resolve_reach,
    resolve_rules,
    write_out_features,
)
from hardwood.threat.spelling import needs_table, read_real, scale_table, shorten_table
from hardwood.threat.toml import read_toml
from hardwood.threat.words import Words


class ThreatModel(Words):
    """What an attacker may do to a row, and which classes attack. Immutable.

    Distances are in the units of the table. What can be done to one feature is spelled as

    * ``None`` or ``""``: nothing;
    * ``">"``, ``"<"``, ``"<>"``: increase it, decrease it, change it, without limit;
    * a number: move it that far to either side;
    * ``"10%"``: move it by up to that share of its own absolute value;
    * ``"0.5 std"``, ``"2 iqr"``: move it by half a standard deviation (as `StandardScaler` has it), two interquartile
      ranges of its column. They are measured once, on the table that a model is trained on or, if nothing is trained,
      that is asked about, and written out as numbers: see `settle`;
    * a pair ``(left, right)`` of such distances: move it down by as much as `left`, up by as much as `right`;
    * a dict ``{category: [categories it can become]}`` if it is categorical; ``"<>"`` there means
      that any category can become any other of the table.

    Parameters
    ----------
    features : None, number, str, list, dict or ThreatModel
        None: nothing can be changed. A number or a string: the same for every feature; only
        ``"<>"`` reaches the categorical ones. A list, tuple or array: one entry per feature, also
        if its length is two. A dict or a pandas Series: by column name, or by index if the table
        has no names; columns that are not named cannot be changed.
    attacking_classes : None, label, list of labels or dict
        The classes whose rows are changed. None: all. A dict says of each of them which classes it wants to be taken
        for, ``{"fraud": ["private", "business"]}``: a row is then lost if the model gets it wrong as it stands, or if
        it can be changed so that the model gives it one of these. Trees are trained against the classes that attack.
    rules : None or list of AttackRule
        What can be done at a cost, to features that `features` leaves alone. `hardwood.threat.priced_reach` says
        exactly what rules, their costs and the budget mean.
    budget : float
        What the changes of a row may cost together; needed with rules.
    repeat : bool, default=True
        Whether rules are applied to a feature as often as the budget allows. False: at most one rule, once per
        feature. A radius is then two rules, one step down and one up, and a budget that pays for every feature.
    unseen_categories : {"error", "ignore", "allow"}, default="error"
        Whether the attacker can bring a category that the table a model was trained on does not have. "error": no, and
        a category that is named here but not in the table is an error, because it is most often misspelt. "ignore": no,
        and what is said here of such categories counts for nothing, as in a file that is meant for several tables.
        "allow": yes, those that are named here and, for a feature that is ``"<>"``, any other.
    whole_numbers : "from_dtype", None or list of columns
        The columns, by name or index, that hold whole numbers only, such as counts and 0/1 flags: a move leads from a
        whole number to a whole number. "from_dtype", the default: the integer and boolean columns of the DataFrame
        that a model is fitted to or asked about, booleans within 0 and 1; an array has none, whatever its dtype.
        None or an empty list: every number is a value. With rules, which say where they lead, no column is whole.
    within : None, dict, "from_data" or ("from_data", margin)
        ``{column: (smallest, largest)}``: the values of a column that exist, both ends included; None or infinity
        for an end that is open. Nothing is moved outside. A column that has rules cannot have a domain. "from_data",
        for all columns or as the value of one: the smallest and the largest value in the table that a model is
        trained on (or asked about, if nothing is trained), on either side widened by a margin, a share of the range.
        They are written out as ``(smallest, largest, "from_data")``: ends that were seen, not said, so that a row
        beyond them is no error; it can only be moved towards them.
    groups : None, "from_table" or list of OneHotGroup
        Columns of 0 and 1 of which exactly one is 1 (or at most one): a change sets another one instead, as far as the
        group's `may_become` says. A list of columns stands for a group in which any can be set instead of any other.
        `features` says nothing of such columns: one entry for all passes over them, and to name one is an error.
        "from_table": those that :func:`find_one_hot_groups` finds in the table that a model is fitted to or asked
        about. Not together with rules.
    blank : None, "all" or list of columns
        The columns, by name or index, in which the attacker can make a value missing. Not together with rules.
    fill : None, "all" or list of columns
        The columns in which the attacker can give a missing value any value that exists: a number of its domain, whole
        where the column is, or any category of the table. Not together with rules. By default what is missing stays
        missing, and nothing else becomes so. Each value is changed once: what was blanked is not filled again.
    max_changes : None or int
        How many columns of a row may be changed. Not together with rules, like the other limits that follow.
    radius : None or float
        How far all changes of a row may go together: each is divided by the unit of its column, and their L1 or L2
        norm is at most this. A changed category is a change by 1. `features` says what each column may become on its
        own; ``"<>"`` leaves it to the radius. Sums up to a billionth above the radius are within it.
    norm : {1, 2}, default=2
        The norm of the radius.
    units : None, number or dict
        ``{column: what counts as a distance of 1}``, such as the range of the column, or one number for all columns;
        1 where nothing is said. A pandas Series will do.
    relations : None or list of str
        What holds between columns, and has to hold after a move: linear inequalities and equalities
        (``"digits + letters <= length"``, ``"total = a + b"``), and columns that are derived from others, by a ratio
        (``"share = digits / length"``) or by one of the increasing functions log, log1p, log2, log10, sqrt, exp and
        expm1 (``"log_amount = log(amount)"``). A name that is no identifier, or an index, stands in backticks. What a
        row breaks as it stands is reported, and not asked of what it becomes. Attacks and proofs honour relations;
        training looks at each column by itself, and so at an attacker who is no weaker. Not together with rules.

    Examples
    --------
    >>> ThreatModel({"age": 2, "income": (0, np.inf)}, attacking_classes="fraud")
    ThreatModel({'age': 2.0, 'income': '>'}, attacking_classes=['fraud'])
    >>> from hardwood import AttackRule
    >>> ThreatModel(rules=[AttackRule("income", when=(0, 5000), add=500)], budget=3)
    ThreatModel(rules=[AttackRule('income', when=(0.0, 5000.0), add=500.0)], budget=3.0)

    At most two columns, and none by more than `features` says; then a radius, measured in units:

    >>> ThreatModel({"age": 2, "income": ">", "debt": "<>"}, max_changes=2)
    ThreatModel({'age': 2.0, 'income': '>', 'debt': '<>'}, max_changes=2)
    >>> ThreatModel("<>", radius=0.5, units={"age": 10, "income": 1000, "debt": 1000})
    ThreatModel('<>', radius=0.5, units={'age': 10.0, 'income': 1000.0, 'debt': 1000.0})

    Training guards against the box around a budget, which is a stronger attacker; attacks, proofs and scores honour
    the budget exactly.
    """

    __slots__ = ()

    def __init__(
        self,
        features: Any = None,
        attacking_classes: Any = None,
        *,
        rules: Any = None,
        budget: Any = None,
        repeat: bool = True,
        unseen_categories: str = "error",
        whole_numbers: Any = "from_dtype",
        within: Any = None,
        groups: Any = None,
        blank: Any = None,
        fill: Any = None,
        max_changes: int | None = None,
        radius: float | None = None,
        norm: int = 2,
        units: Any = None,
        relations: Any = None,
    ) -> None:
        beside = {
            "rules": rules,
            "budget": budget,
            "repeat": repeat,
            "unseen_categories": unseen_categories,
            "whole_numbers": whole_numbers,
            "within": within,
            "groups": groups,
            "blank": blank,
            "fill": fill,
            "max_changes": max_changes,
            "radius": radius,
            "norm": norm,
            "units": units,
            "relations": relations,
        }
        if isinstance(features, ThreatModel):
            if repeated := find_given(beside):
                raise ValueError(f"{', '.join(repeated)}: a ThreatModel is given, which has its own")
            self._features, self._options = features._features, features._options
            if attacking_classes is not None:
                self._options = replace(self._options, attacking_classes=read_classes(attacking_classes))
        else:
            self._features = shorten_table(features)
            moves = any(said is not None for said in (features, groups, blank, fill))
            if not moves and (max_changes is not None or radius is not None):
                raise ValueError(
                    "max_changes, radius: they limit what `features` lets an attacker change, and that is nothing; "
                    "say features='<>', or what each column may become"
                )
            self._options = Options.read({"attacking_classes": attacking_classes, **beside})

    @classmethod
    def coerce(cls, spec: Any, attacking_classes: Any = None) -> ThreatModel:
        """Return `spec` as a threat model, whatever its spelling.

        Examples
        --------
        >>> ThreatModel.coerce(0.1, attacking_classes=[1])
        ThreatModel(0.1, attacking_classes=[1])
        """
        if isinstance(spec, ThreatModel) and attacking_classes is None:
            return spec
        return cls(spec, attacking_classes)

    def resolve(self, schema: Schema, classes: Iterable[Any] | None = None) -> Reach:
        """Turn the words into arrays for one table.

        Parameters
        ----------
        schema : Schema
            What the columns are.
        classes : sequence of labels, or None
            The classes in the order of their indices. None: there is no class information, and
            every row may be changed.

        Returns
        -------
        Reach
            With ``unseen_categories="allow"``, a category that is named here but not in `schema` counts as one never
            seen.

        Examples
        --------
        >>> schema = Schema(1, ("color",), (("blue", "red"),))
        >>> ThreatModel({"color": {"red": ["blue"]}}).resolve(schema).categories[0]
        array([[ True, False, False],
               [ True,  True, False],
               [False, False,  True]])
        """
        if self._options.rules:
            raise ValueError(
                f"threat: {quote(self)} has attack rules with a budget, which are not understood here; "
                "give how far each feature can be moved instead (TreantClassifier is trained against rules)"
            )
        entries, _ = self._place(schema)
        self._check_categories(entries, (), schema)
        return self._resolve_classes(entries, schema, classes)

    def price(self, schema: Schema, classes: Iterable[Any] | None = None) -> PricedReach:
        """Turn the words, rules included, into arrays for one table; as `resolve`, which is for reach without costs.

        Examples
        --------
        >>> from hardwood import AttackRule
        >>> schema = Schema(1, ("color",), (("blue", "red"),))
        >>> threat = ThreatModel(rules=[AttackRule("color", when="red", set_to="blue")], budget=1)
        >>> threat.price(schema).category_cost[0]
        array([[ 0., inf, inf],
               [ 1.,  0., inf],
               [inf, inf,  0.]])
        """
        entries, rules = self._place(schema)
        self._check_categories(entries, rules, schema)
        if isinstance(self.whole_numbers, list) and self.whole_numbers:
            raise ValueError(
                f"whole_numbers={quote(self.whole_numbers)}: not understood where changes have costs; leave it out"
            )
        if self._options.groups:
            raise ValueError(f"groups={quote(self.groups)}: not understood where changes have costs; leave it out")
        return self._resolve_rules(rules, self._resolve_classes(entries, schema, classes), schema)

    @property
    def is_measured(self) -> bool:
        """Whether `settle` reads something off the values of a whole table: spreads, domains or one-hot groups.

        Examples
        --------
        >>> ThreatModel("2 std").is_measured, ThreatModel(2.0).is_measured
        (True, False)
        """
        return needs_table(self._features) or self._options.is_measured

    def settle(self, X: Any, matrix: np.ndarray, schema: Schema) -> ThreatModel:
        """Return the threat model with what it leaves to a table written out, after checking the table's rows.

        Parameters
        ----------
        X : the table that a model is fitted to or asked about
            Its dtypes decide where ``whole_numbers="from_dtype"``, its rows where ``groups="from_table"``, its values
            where a distance is measured in standard deviations or interquartile ranges.
        matrix : ndarray, the same as `Schema.encode` returns it
        schema : Schema

        Raises
        ------
        ValueError
            If a value does not exist: not whole where it has to be, outside its domain, or not of its one-hot group.
            The first is named.

        Examples
        --------
        >>> import pandas as pd
        >>> table = pd.DataFrame({"clicks": [3, 5], "share": [0.5, 1.0]})
        >>> schema = Schema.from_table(table)
        >>> threat = ThreatModel({"clicks": 2, "share": "2 std"})
        >>> threat.settle(table, schema.encode(table), schema)
        ThreatModel({'clicks': 2.0, 'share': 0.5}, whole_numbers=['clicks'])
        """
        features = write_out_features(self._features, matrix, schema)
        options = self._options.settle(X, matrix, schema, moves=features is not None)
        if not isinstance(self._features, (dict, list)):  # one entry for all passes over groups
            features = leave_out(features, options.groups)
        if features is self._features and options is self._options:
            return self
        return self._put(features, options)

    def replace(self, **options: Any) -> ThreatModel:
        """Return the threat model with some of its parameters given anew.

        Examples
        --------
        >>> ThreatModel({"age": 2}, within={"age": (18, 99)}).replace(features={"age": 5}, attacking_classes="fraud")
        ThreatModel({'age': 5.0}, attacking_classes=['fraud'], within={'age': (18.0, 99.0)})
        """
        return ThreatModel(**{"features": self._features, **self._options.spell(), **options})

    def extend(self, schema: Schema) -> Schema:
        """Add the categories that the attacker can bring, and that are named here, to those of the schema.

        An estimator that is trained against such an attacker so has a place for each of them, after the last.

        Examples
        --------
        >>> schema = Schema(1, ("color",), (("blue", "red"),))
        >>> ThreatModel({"color": {"red": ["purple"]}}, unseen_categories="allow").extend(schema).categories
        (('blue', 'red', 'purple'),)
        """
        entries, rules = self._place(schema)
        self._check_categories(entries, rules, schema)
        return extend_schema(entries, rules, schema) if self._options.allows_unseen else schema

    def scaled(self, factor: float) -> ThreatModel:
        """Return the threat model with every distance, the radius and the budget of rules multiplied by `factor`.

        What has no size cannot be scaled: a feature that can be moved without limit still can, and categories become
        what they could become before. At 0 there is no attacker at all, at infinity there are no limits. How many
        columns may be changed stays as it is.

        Parameters
        ----------
        factor : float >= 0

        Examples
        --------
        >>> threat = ThreatModel({"age": 2, "income": (1, 3), "debt": ">"})
        >>> threat.scaled(0.5)
        ThreatModel({'age': 1.0, 'income': (0.5, 1.5), 'debt': '>'})
        >>> threat.scaled(np.inf)
        ThreatModel({'age': inf, 'income': inf, 'debt': '>'})
        """
        strength = read_real(factor, "factor")
        if not strength >= 0.0:
            raise ValueError(f"factor={quote(factor)}: expected a number >= 0")
        return self._put(scale_table(self._features, strength), self._options.scale(strength))

    def contains(self, X: Any, X_adv: Any, y: Any = None, schema: Schema | None = None) -> np.ndarray:
        """Say of each row of `X` whether it can be turned into the same row of `X_adv`.

        Parameters
        ----------
        X, X_adv : tables of the same shape
            The rows before and after. A missing number stays missing, and no other becomes missing, unless `blank`
            and `fill` say so. The same holds for a missing category if `schema` accepts missing values; otherwise it
            counts as one never seen.
        y : array-like of shape (n_rows,), or None
            The classes of the rows; needed if only some classes attack.
        schema : Schema or None
            What the columns are; by default ``Schema.from_table(X)``, where categories of `X_adv` and those that
            are named here count as known, too.

        Returns
        -------
        ndarray of shape (n_rows,)
            Booleans, by the same numbers as `Reach.box` and `PricedReach.pieces`.

        Examples
        --------
        >>> ThreatModel([0.5, None]).contains([[1, 2], [1, 2]], [[1.5, 2], [1, 3]])
        array([ True, False])
        """
        if schema is None:
            # These rows need not hold all categories: they are not the training table.
            schema = Schema.from_table(X)
            schema = extend_schema(*self._place(schema), schema)
            schema = add_labels(replace(schema, accepts_missing=True), X_adv)
        else:
            schema = self.extend(schema)
        accepting = replace(schema, accepts_missing=True)
        before, after = accepting.encode(X), accepting.encode(X_adv)
        if len(before) != len(after):
            raise ValueError(f"X_adv: {len(after)} rows, but X has {len(before)}")
        moves = find_attacking_rows(self._options.attacking_classes, y, len(before))
        if not schema.accepts_missing:
            for j, labels in enumerate(schema.categories):
                if labels is not None:
                    for matrix in (before, after):
                        matrix[np.isnan(matrix[:, j]), j] = len(labels)
        words = self.settle(X, before, schema)
        entries, rules = words._place(schema)
        free = words._resolve_entries(entries, schema, np.array([False, True]))
        reach = words._resolve_rules(rules, free, schema) if rules else free
        return reach.contains(before, after, moves.astype(np.intp))

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> ThreatModel:
        """Read a threat model from a TOML file.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = ThreatModel({"age": 2}).to_toml(os.path.join(folder, "threat.toml"))
        ...     ThreatModel.from_toml(os.path.join(folder, "threat.toml"))
        ThreatModel({'age': 2.0})
        """
        try:
            return cls.parse(read_text(path))
        except ValueError as error:
            raise ValueError(f"{shorten(os.fspath(path))}: {error}") from None

    @classmethod
    def parse(cls, text: str) -> ThreatModel:
        """Read a threat model from TOML text.

        Examples
        --------
        >>> ThreatModel.parse('features = [0.5, "<", [0, inf], {red = ["blue"]}, ""]')
        ThreatModel([0.5, '<', '>', {'red': ['blue']}, None])
        """
        return cls(**read_toml(text, ("features", *list_options())))

    @classmethod
    def _put(cls, features: Any, options: Options) -> ThreatModel:
        """Return the threat model that says this, which has been read before."""
        threat = cls.__new__(cls)
        threat._features, threat._options = features, options
        return threat

    def _place(self, schema: Schema) -> tuple[list[Any], PlacedRules]:
        """Return one entry per feature of a table, and the rules, each with the position of its feature."""
        entries = place_entries(self._features, schema)
        return entries, place_rules(self._options.rules, entries, schema)

    def _check_categories(self, entries: list[Any], rules: PlacedRules, schema: Schema) -> None:
        """Refuse categories that the table does not have, unless they are expected."""
        if self._options.unseen_categories == "error":
            check_categories_known(entries, rules, schema)

    def _resolve_classes(self, entries: list[Any], schema: Schema, classes: Iterable[Any] | None) -> Reach:
        """Return what can be done to rows of some classes."""
        attackers, classes = self._options.attacking_classes, None if classes is None else list(classes)
        reach = self._resolve_entries(entries, schema, find_attacking_classes(attackers, classes))
        targets = find_targets(attackers, classes)
        return reach if targets is None else replace(reach, targets=targets)

    def _resolve_entries(self, entries: list[Any], schema: Schema, attacks: np.ndarray) -> Reach:
        options = self._options
        groups = options.place_groups(schema)
        if groups is not None:
            entries = leave_to_groups(self._features, entries, groups, schema)
        reach = resolve_reach(entries, schema, attacks, options.place(schema), allow_unseen=options.allows_unseen)
        reach = reach if groups is None else add_groups(reach, groups)
        return reach.under(options.place_budget(schema))

    def _resolve_rules(self, rules: PlacedRules, free: Reach, schema: Schema) -> PricedReach:
        options = self._options
        return resolve_rules(
            rules, free, schema, options.budget or 0.0, options.repeat, allow_unseen=options.allows_unseen
        )

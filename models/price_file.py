"""A price file of the user's own: what a model costs per million tokens, read from YAML or JSON and checked."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import groupby
from typing import Annotated

import yaml
from genai_prices.types import ClauseEquals as Equals
from genai_prices.types import ConditionalPrice, ModelInfo, ModelPrice, StartDateConstraint, Tier, TieredPrices
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from models.errors import MalformedInput

Rate = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]

DIGEST_CHARS = 12
"""So much of the content's SHA-256 tells one version of a file from another."""

KEYS = {
    "input_usd_per_mtok": "input_mtok",
    "output_usd_per_mtok": "output_mtok",
    "cache_read_usd_per_mtok": "cache_read_mtok",
    "cache_write_usd_per_mtok": "cache_write_mtok",
    "cache_write_1h_usd_per_mtok": "cache_write_1h_mtok",
    "reasoning_usd_per_mtok": "output_reasoning_mtok",
}
"""Our names and those of genai-prices, which does the arithmetic."""


class Part(BaseModel):
    """A part of the file; a field that we do not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, populate_by_name=True)


class Rates(Part):
    """US dollars per million tokens. Tokens of a class without a price cost what the class they are part of does."""

    input_usd_per_mtok: Rate | None = None
    """Input, and all of it that has no price of its own below."""

    output_usd_per_mtok: Rate | None = None
    """Output, and all of it that has no price of its own below."""

    cache_read_usd_per_mtok: Rate | None = None
    """Input read from the cache."""

    cache_write_usd_per_mtok: Rate | None = None
    """Input written to the cache: for five minutes, or for any time where the next is left out."""

    cache_write_1h_usd_per_mtok: Rate | None = None
    """Input written to the cache for an hour."""

    reasoning_usd_per_mtok: Rate | None = None
    """Of the output, tokens spent on reasoning."""

    @property
    def given(self) -> dict[str, Decimal]:
        """The prices that are there, by their names in genai-prices."""
        return {KEYS[name]: rate for name, rate in self if rate is not None}


class Above(Part):
    """Prices of calls whose whole input is larger than so many tokens; they hold for all of the call's tokens."""

    input_tokens: Annotated[int, Field(gt=0)]
    """The input, cached parts included, above which these prices hold."""

    prices: Rates
    """What changes; the others stay."""


class PricedModel(Part):
    """One model's prices."""

    model: Name
    """The model's name as it is recorded; case makes no difference."""

    provider: Name | None = None
    """Only calls of this provider; without it, of any."""

    also: tuple[Name, ...] = ()
    """Other names of the model; one that ends in `*` stands for all that begin so."""

    since: date | None = Field(default=None, alias="from")
    """The day (UTC) from which the prices hold; before it, the price table is asked as if this were not there."""

    prices: Rates
    """The prices."""

    above: tuple[Above, ...] = ()
    """Other prices for large inputs."""

    @model_validator(mode="after")
    def _whole(self) -> "PricedModel":
        for needed in ("input_usd_per_mtok", "output_usd_per_mtok"):
            if getattr(self.prices, needed) is None:
                raise ValueError(f"prices lack {needed}")
        if "cache_write_1h_mtok" in self.prices.given and "cache_write_mtok" not in self.prices.given:
            raise ValueError("cache_write_1h_usd_per_mtok needs cache_write_usd_per_mtok beside it")
        sizes = [tier.input_tokens for tier in self.above]
        if sizes != sorted(set(sizes)):
            raise ValueError("the input_tokens of `above` do not grow")
        for tier in self.above:
            if unknown := tier.prices.given.keys() - self.prices.given.keys():
                ours = {theirs: name for name, theirs in KEYS.items()}
                raise ValueError(f"`above` has {ours[min(unknown)]}, which the prices do not have")
        return self

    @property
    def model_price(self) -> ModelPrice:
        """The same in the terms of genai-prices."""
        prices: dict[str, Decimal | TieredPrices | None] = {}
        for key, rate in self.prices.given.items():
            tiers, last = [], rate
            for tier in self.above:
                last = tier.prices.given.get(key, last)
                tiers.append(Tier(tier.input_tokens, last))
            prices[key] = TieredPrices(rate, tiers) if tiers else rate
        return ModelPrice(**prices)


class PriceFile(Part):
    """The whole file."""

    models: tuple[PricedModel, ...]


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """A model of the file with all its prices in time."""

    provider: str | None
    names: tuple[str, ...]
    """The model's name and its others, in lower case."""

    since: date | None
    """Before this day the entry does not hold; None: it always does."""

    info: ModelInfo


class OwnPrices:
    """The models of one file, found by name."""

    def __init__(self, name: str, digest: str, entries: tuple[OwnEntry, ...]) -> None:
        self.name = name
        self.digest = digest
        self.entries = entries
        self.version = f"{name} sha256:{digest[:DIGEST_CHARS]}"
        """Kept on each cost that the file gives."""

    def find(self, providers: frozenset[str], model: str, day: date) -> OwnEntry | None:
        """The entry for a model on a day: the whole name before a beginning, a named provider before any.

        `providers` are the spellings of the one that was called; none where it is not known.
        """
        asked = model.lower()
        fitting = [
            (name.endswith("*"), -len(name), entry.provider is None, at)
            for at, entry in enumerate(self.entries)
            if (entry.provider is None or not providers or entry.provider in providers)
            and (entry.since is None or entry.since <= day)
            for name in entry.names
            if name == asked or (name.endswith("*") and asked.startswith(name[:-1]))
        ]
        return self.entries[min(fitting)[-1]] if fitting else None

    def entry_id(self, entry: OwnEntry) -> str:
        """The name of an entry, as kept beside a cost: it says that it is the user's."""
        return f"{self.name}:{entry.provider + '/' if entry.provider else ''}{entry.info.id}"


def parse(text: str, name: str) -> OwnPrices:
    """The prices in a file of that name; raises MalformedInput, which names the line and the field."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_repeats(node, name)
        told = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        reason = getattr(problem, "problem", None) or str(problem).splitlines()[0]
        raise MalformedInput(reason, _place(name, mark.line + 1 if mark else None)) from None
    try:
        file = PriceFile.model_validate({} if told is None else told)
    except ValidationError as problem:
        found = problem.errors()
        # A misspelt field is the cause of the one that is missing then.
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise MalformedInput(
            f"{field}: {reason}" if field else reason,
            _place(name, _line(node, first["loc"])),
            next_step="docs/prices.md shows the format",
        ) from None
    return OwnPrices(name, hashlib.sha256(text.encode()).hexdigest(), tuple(_entries(file, name)))


def _entries(file: PriceFile, name: str) -> Iterator[OwnEntry]:
    """Entries of one model, one per day from which prices hold, become one."""

    def key(model: PricedModel) -> tuple[str, str]:
        return model.model.lower(), (model.provider or "").lower()

    for _, group in groupby(sorted(file.models, key=key), key=key):
        dated = sorted(group, key=lambda model: model.since or date.min)
        days = [model.since for model in dated]
        first = dated[0]
        if len(set(days)) < len(days):
            raise MalformedInput(f"{first.model} is there twice", name, next_step="tell them apart by `from`")
        yield OwnEntry(
            first.provider.lower() if first.provider else None,
            tuple(dict.fromkeys(n.lower() for model in dated for n in (model.model, *model.also))),
            first.since,
            ModelInfo(
                id=first.model,
                match=Equals(first.model.lower()),
                prices=[
                    ConditionalPrice(StartDateConstraint(m.since) if m.since else None, prices=m.model_price)
                    for m in dated
                ],
            ),
        )


def _refuse_repeats(node: yaml.Node | None, name: str) -> None:
    """Of a key given twice YAML would silently take the last."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                raise MalformedInput(f"{key.value} is given twice", _place(name, key.start_mark.line + 1))
            seen.add(key.value)
            _refuse_repeats(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_repeats(value, name)


def _line(node: yaml.Node | None, path: tuple[int | str, ...]) -> int | None:
    """The line of the innermost part of a path that is in the file."""
    line = None
    for step in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(step)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _place(name: str, line: int | None) -> str:
    return name if line is None else f"{name} line {line}"

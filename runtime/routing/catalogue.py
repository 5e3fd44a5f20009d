"""The models there are: what each can do, what it costs, and in which order they are preferred; read from YAML."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models import pricing
from models.errors import MalformedInput
from models.values import Amount, Count, Name, Price
from runtime.routing.limits import Limit

CostClass = Literal["free", "low", "medium", "high"]
COST_CLASSES: tuple[CostClass, ...] = ("free", "low", "medium", "high")
BUNDLED = Path(__file__).with_name("models.yaml")
Location = tuple[str | int, ...]


class Entry(BaseModel):
    """A part of the file: unknown keys are refused, so that a misspelt one is not silently without effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())


class Prices(Entry):
    """What a model costs, in US dollars per million tokens, where the price table does not know or is not right."""

    input_usd_per_mtok: Amount
    output_usd_per_mtok: Amount

    cache_read_usd_per_mtok: Amount | None = None
    """As the uncached input if left out."""

    cache_write_usd_per_mtok: Amount | None = None
    """As the uncached input if left out."""


class ProviderEntry(Entry):
    """A provider of models."""

    credential: Name | None = None
    """The environment variable that holds its key; None: it needs none."""


class Model(Entry):
    """A model that may be chosen."""

    provider: Name
    model: Name
    """The model's name as its provider spells it."""

    capabilities: tuple[str, ...] | None = None
    """What it can do, such as `tools` or `vision`; None: nobody told, so it is not left out for want of any."""

    context_window_tokens: Count | None = None
    """How many tokens fit into one call."""

    max_output_tokens: Count | None = None
    """How many tokens one answer can have."""

    cost_class: CostClass | None = None
    """How dear it is, as a class."""

    latency_class: str | None = None
    """How fast it is, as a class."""

    prices: Prices | None = None
    """What it costs; left out, the price table's own match counts."""

    preference: int = 100
    """The lower, the sooner it is taken; among equals the order of the file counts."""

    on_request: bool = False
    """Whether it is taken only by a turn that asks for it."""

    fallback: tuple[Name, ...] = ()
    """Models to try after it, as `provider/model`; left out, all others in the order of preference."""

    quotas: tuple[Name, ...] = ()
    """Names of limits that bind it though they do not name it, such as an account's."""

    @property
    def name(self) -> str:
        """Provider and model in one word."""
        return f"{self.provider}/{self.model}"


class Defaults(Entry):
    """What holds for a turn that does not say otherwise."""

    kind: Name = "general"
    """The sort of work."""

    model: Name | None = None
    """The model to take, as `provider/model` or `model`."""

    required_capabilities: tuple[str, ...] = ()
    latency_target: str | None = None
    budget_class: CostClass | None = None
    fallback: Literal["chain", "none"] = "chain"
    """Whether another model is tried after a failure."""


class Catalogue(Entry):
    """All models, in the order they are preferred."""

    providers: dict[Name, ProviderEntry] = Field(default_factory=dict)
    models: tuple[Model, ...] = ()
    limits: tuple[Limit, ...] = ()
    defaults: Defaults = Defaults()

    bundled: bool = True
    """Whether the models that come with the program follow those of this file."""

    source: str = Field(default="", exclude=True)
    """The file it was read from, the user's own if there is one."""

    version: str = Field(default="", exclude=True)
    """The file, or files, and a digest of what they say; kept beside every cost computed from their prices."""

    def find(self, asked: str) -> Model | None:
        """The model of that name, `provider/model` or the model alone; the first, if several providers have it."""
        for model in self.models:
            if asked in (model.name, model.model):
                return model
        return None

    def including(self, asked: str | None) -> Self:
        """The catalogue with a model that is not in it, if its provider is; nothing is known of what it can do."""
        if asked is None or self.find(asked) is not None:
            return self
        provider, _, model = asked.partition("/")
        if not model or provider not in self.providers:
            return self
        found = pricing.match(provider, model)
        window = found[1].context_window if found else None
        return self.model_copy(
            update={"models": (*self.models, Model(provider=provider, model=model, context_window_tokens=window))}
        )

    def price(self, model: Model, input_tokens: int, when: datetime) -> Price | None:
        """The line of prices for a call of that size: the file's own, else the price table's; None: unknown."""
        own = model.prices
        if own is None:
            return pricing.rates(model.provider, model.model, input_tokens, when)
        uncached = own.input_usd_per_mtok
        read, write = own.cache_read_usd_per_mtok, own.cache_write_usd_per_mtok
        return Price(
            table_version=self.version,
            entry=model.name,
            input_usd_per_mtok=uncached,
            cache_read_usd_per_mtok=uncached if read is None else read,
            cache_write_usd_per_mtok=uncached if write is None else write,
            output_usd_per_mtok=own.output_usd_per_mtok,
        )

    def credentials_present(self, environment: Mapping[str, str]) -> frozenset[str]:
        """The providers that can be called: those whose key is set, and those that need none."""
        needed = {name: entry.credential for name, entry in self.providers.items()}
        return frozenset(name for name, variable in needed.items() if variable is None or environment.get(variable))


def load(own: Path | None = None) -> Catalogue:
    """The bundled catalogue, preceded by the user's own file if there is one; raises MalformedInput with the line."""
    bundled, _ = _read(BUNDLED)
    if own is None or not own.exists():
        return bundled
    user, lines = _read(own)
    merged = _merged(user, bundled) if user.bundled else user
    for location, problem in _contradictions(user, merged):
        raise MalformedInput(f"{_path(location)}{problem}", source=f"{own}:{_line(lines, location)}")
    return merged


def own_file(home: Path) -> Path:
    """Where the user's own models are listed."""
    return home / "runtime" / "models.yaml"


def _read(path: Path) -> tuple[Catalogue, yaml.Node | None]:
    text = path.read_text()
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        _refuse_oddities(node)
        document: Any = {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise MalformedInput(error.problem or "not YAML", source=f"{path}:{line}") from None
    finally:
        loader.dispose()
    version = f"{path.name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    try:
        catalogue = Catalogue.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise MalformedInput(_path(first["loc"]) + first["msg"], source=f"{path}:{_line(node, first['loc'])}") from None
    return catalogue.model_copy(
        update={"version": version, "source": "bundled" if path == BUNDLED else str(path)}
    ), node


def _merged(user: Catalogue, bundled: Catalogue) -> Catalogue:
    told = {model.name for model in user.models}
    return Catalogue(
        providers=bundled.providers | user.providers,
        models=(*user.models, *(model for model in bundled.models if model.name not in told)),
        limits=user.limits,
        defaults=user.defaults,
        source=user.source,
        version=f"{user.version}, bundled {bundled.version}",
    )


def _contradictions(file: Catalogue, whole: Catalogue) -> Iterator[tuple[Location, str]]:
    seen: set[str] = set()
    for at, model in enumerate(file.models):
        if model.name in seen:
            yield ("models", at, "model"), f"{model.name} is listed twice"
        seen.add(model.name)
        if model.provider not in whole.providers:
            yield ("models", at, "provider"), f"there is no provider {model.provider!r}"
        for place, name in enumerate(model.fallback):
            if whole.find(name) is None:
                yield ("models", at, "fallback", place), f"there is no model {name!r}"
    limits: set[tuple[str, str]] = set()
    for at, limit in enumerate(file.limits):
        if (limit.scope, limit.name) in limits:
            yield ("limits", at, "name"), f"limit {limit.name} of scope {limit.scope} is listed twice"
        limits.add((limit.scope, limit.name))
    if file.defaults.model is not None and whole.including(file.defaults.model).find(file.defaults.model) is None:
        yield ("defaults", "model"), f"there is no model {file.defaults.model!r}"


def _refuse_oddities(node: yaml.Node | None, within: tuple[yaml.Node, ...] = ()) -> None:
    """YAML lets the last of two equal keys win, so the first would be lost without a word; and it knows no end."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return
    if any(node is outer for outer in within):
        raise yaml.MarkedYAMLError(problem="it contains itself", problem_mark=node.start_mark)
    inner = (*within, node)
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_oddities(value, inner)
        return
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key is a single word", problem_mark=key.start_mark)
        if key.value in seen:
            raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
        seen.add(key.value)
        _refuse_oddities(value, inner)


def _line(node: yaml.Node | None, location: Location) -> int:
    """The line of a part of the file, or of the nearest thing around it."""
    line = 1
    for part in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        elif isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
            continue
        else:
            break
        line = node.start_mark.line + 1
    return line


def _path(location: Location) -> str:
    return ".".join(map(str, location)) + ": " if location else ""

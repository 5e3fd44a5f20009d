"""Providers by name, opened from settings and environment; an SDK is imported only when its provider is asked for."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.errors import UsageError
from runtime.providers.provider import Provider
from runtime.providers.script import parse_script, read_script
from runtime.providers.scripted import ScriptedProvider

Clock = Callable[[], datetime]
S = TypeVar("S", bound=BaseModel)


class ScriptedSettings(BaseModel):
    """Settings of `scripted`: where the script is, or the script itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path | None = None
    """The script's file."""

    text: str | None = None
    """The script itself, as YAML."""


class HttpSettings(BaseModel):
    """What the providers behind HTTP have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    """Where the API is; otherwise the environment's base URL, otherwise the provider's own."""

    api_key_env: str | None = None
    """The environment variable that holds the key, if not the usual one."""

    connect_timeout_s: Annotated[float, Field(gt=0)] = 10
    """How long a connection may take to stand."""

    idle_timeout_s: Annotated[float, Field(gt=0)] = 300
    """How long a stream may be silent; models that reason can be, for minutes."""


class OpenAiSettings(HttpSettings):
    """Settings of `openai`."""

    api: Literal["chat", "responses"] = "responses"
    """Which of the two APIs to use; servers of other makers mostly speak `chat`."""


class AnthropicSettings(HttpSettings):
    """Settings of `anthropic`."""

    max_output_tokens: Annotated[int, Field(ge=1)] = 8192
    """The bound for requests without one; the API demands a bound."""


def open_provider(
    name: str,
    *,
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    clock: Clock = lambda: datetime.now(UTC),
) -> Provider:
    """A provider, ready to be asked; UsageError says what is missing."""
    opens = _REGISTRY.get(name)
    if opens is None:
        raise UsageError(f"unknown provider {name!r}", next_step=f"choose one of {', '.join(sorted(_REGISTRY))}")
    return opens(settings, os.environ if environment is None else environment, clock)


def _checked(shape: type[S], name: str, settings: Mapping[str, Any]) -> S:
    try:
        return shape.model_validate(dict(settings))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    # Not chained: the error behind it would repeat the values, and somebody may have put a key there.
    raise UsageError(f"settings of provider {name}: {'; '.join(faults)}")


def _scripted(settings: Mapping[str, Any], environment: Mapping[str, str], clock: Clock) -> Provider:
    told = _checked(ScriptedSettings, "scripted", settings)
    if told.path is not None and told.text is None:
        return ScriptedProvider(read_script(told.path))
    if told.text is not None and told.path is None:
        return ScriptedProvider(parse_script(told.text, "script"))
    raise UsageError("settings of provider scripted: give either path or text")


def _openai(settings: Mapping[str, Any], environment: Mapping[str, str], clock: Clock) -> Provider:
    told = _checked(OpenAiSettings, "openai", settings)
    key = _key("openai", told.api_key_env or "OPENAI_API_KEY", environment)
    room = _sdk("openai", "runtime.providers.openai_client")
    provider: Provider = room.OpenAiProvider(
        api_key=key,
        base_url=told.base_url or environment.get("OPENAI_BASE_URL"),
        api=told.api,
        timeout=_timeout(told),
        clock=clock,
    )
    return provider


def _anthropic(settings: Mapping[str, Any], environment: Mapping[str, str], clock: Clock) -> Provider:
    told = _checked(AnthropicSettings, "anthropic", settings)
    key = _key("anthropic", told.api_key_env or "ANTHROPIC_API_KEY", environment)
    room = _sdk("anthropic", "runtime.providers.anthropic_client")
    provider: Provider = room.AnthropicProvider(
        api_key=key,
        base_url=told.base_url or environment.get("ANTHROPIC_BASE_URL"),
        max_output_tokens=told.max_output_tokens,
        timeout=_timeout(told),
        clock=clock,
    )
    return provider


def _key(provider: str, variable: str, environment: Mapping[str, str]) -> str:
    key = environment.get(variable, "").strip()
    if not key:
        raise UsageError(f"provider {provider} needs a key", next_step=f"set {variable} in the environment")
    return key


def _sdk(extra: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {extra, "httpx2"}:
            raise
        raise UsageError(
            f"provider {extra} needs its SDK, which is not installed", next_step=f"pip install 'tachograph[{extra}]'"
        ) from error


def _timeout(told: HttpSettings) -> Any:
    httpx2 = import_module("httpx2")  # comes with the SDKs
    return httpx2.Timeout(told.idle_timeout_s, connect=told.connect_timeout_s)


_REGISTRY: dict[str, Callable[[Mapping[str, Any], Mapping[str, str], Clock], Provider]] = {
    "scripted": _scripted,
    "openai": _openai,
    "anthropic": _anthropic,
}
PROVIDERS = tuple(_REGISTRY)

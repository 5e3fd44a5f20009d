"""The choice of a model: what there is, what may be spent, what was chosen and why, as pure functions on facts."""

from runtime.routing.candidates import Conditions, RoutingOptions, candidates, resolve_profile
from runtime.routing.catalogue import Catalogue, Model, load, own_file
from runtime.routing.costs import estimate, record_cost
from runtime.routing.decision import decide, fall_back
from runtime.routing.ledger import (
    Ledger,
    apply_event,
    configured,
    fold,
    quota_blocked,
    quota_low,
    set_limit,
    standing,
    standings,
)
from runtime.routing.limits import Limit, SetLimit, Standing
from runtime.routing.throttling import limit_changes, provider_quota_blocked, rate_limit_hit

__all__ = [
    "Catalogue",
    "Conditions",
    "Ledger",
    "Limit",
    "Model",
    "RoutingOptions",
    "SetLimit",
    "Standing",
    "apply_event",
    "candidates",
    "configured",
    "decide",
    "estimate",
    "fall_back",
    "fold",
    "limit_changes",
    "load",
    "own_file",
    "provider_quota_blocked",
    "quota_blocked",
    "quota_low",
    "rate_limit_hit",
    "record_cost",
    "resolve_profile",
    "set_limit",
    "standing",
    "standings",
]

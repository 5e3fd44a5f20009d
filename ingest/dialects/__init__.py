"""One module per dialect; importing this package declares them all."""

from importlib import import_module
from pkgutil import iter_modules

from ingest.dialects.dialect import PRIORITY, Dialect, Translated, translate

__all__ = ["PRIORITY", "Dialect", "Translated", "translate"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

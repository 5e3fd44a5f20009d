"""Fuzzes one target in this process: `python -m fuzz.run TARGET FOLDER [libFuzzer options]`."""

import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]  # fuzzing only

with atheris.instrument_imports(include=["ingest", "collector.bodies", "models.redaction"]):
    from fuzz.seeds import write_seeds
    from fuzz.targets import TARGETS


def main() -> None:
    """Never returns: libFuzzer ends the process."""
    name, folder, *options = sys.argv[1:]
    write_seeds(name, Path(folder) / "seeds")
    found = Path(folder) / "found"
    corpus = Path(folder) / "corpus"
    for place in (found, corpus):
        place.mkdir(exist_ok=True)
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={found}/", str(corpus), str(Path(folder) / "seeds")],
                  TARGETS[name])  # fmt: skip
    atheris.Fuzz()


if __name__ == "__main__":
    main()

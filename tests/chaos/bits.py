"""Damage of the smallest kind."""

import random
from pathlib import Path


def flip(path: Path, place: int, source: random.Random) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << source.randrange(8))]))

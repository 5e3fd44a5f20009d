"""`python -m tests.chaos`: the long version of the crash tests, with figures; a seed that fails is kept in a file."""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.chaos import kills
from tests.chaos.test_kills import SEEDS, failed_before
from tests.chaos.test_power_cut import cut_often

KILLS_PER_HOME = 50
CUTS_PER_JOURNAL = 20


def main() -> int:
    """Run until all is done or the time is up; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="kill -9 of receiver, index and supervisor")
    parser.add_argument("--power-cuts", type=int, default=200, help="power cuts under the journal")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further round after so long")
    chosen = parser.parse_args()
    deadline = time.monotonic() + 60 * chosen.minutes
    print(f"seed {chosen.seed}", flush=True)
    power_cuts(chosen.power_cuts, chosen.seed, deadline)
    return random_kills(chosen.kills, chosen.seed, deadline)


def power_cuts(count: int, seed: int, deadline: float) -> None:
    """Power cuts, a few on each journal."""
    done = acknowledged = unsure = 0
    while done < count and time.monotonic() < deadline:
        with tempfile.TemporaryDirectory(prefix="tachograph-chaos-") as folder:
            found = cut_often(Path(folder), CUTS_PER_JOURNAL, seed + done)
        done, acknowledged, unsure = done + CUTS_PER_JOURNAL, acknowledged + found[0], unsure + found[1]
    print(f"{done} power cuts: {acknowledged} records acknowledged, 0 missing; {unsure} unsynced changes lost or torn")


def random_kills(count: int, seed: int, deadline: float) -> int:
    """Kills, some on each home; those that failed before come first."""
    rounds = [*failed_before(), *((KILLS_PER_HOME, seed + n) for n in range(-(-count // KILLS_PER_HOME)))]
    killed: Counter[str] = Counter()
    acknowledged = unknown = 0
    for kills_here, seed_here in rounds:
        if time.monotonic() > deadline:
            break
        with tempfile.TemporaryDirectory(prefix="tachograph-chaos-") as folder:
            try:
                outcome = kills.run(Path(folder) / "home", kills_here, seed_here)
            except AssertionError as broken:
                with SEEDS.open("a") as seeds:
                    seeds.write(f"{kills_here} {seed_here}  # {str(broken).splitlines()[0]}\n")
                print(f"FAILED {broken}", file=sys.stderr)
                return 1
        killed += outcome.kills
        acknowledged, unknown = acknowledged + outcome.acknowledged, unknown + outcome.unknown
        print(f"  {outcome}", flush=True)
    print(f"{killed.total()} kills {dict(killed)}: {acknowledged} requests acknowledged, {unknown} unknown;", end=" ")
    print("0 missing, 0 doubled")
    return 0


if __name__ == "__main__":
    sys.exit(main())

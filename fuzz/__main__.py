"""`python -m fuzz [--seconds N] [TARGET …]`: fuzz each target for a while; exit 1 if one was broken."""

import argparse
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from fuzz.targets import TARGETS

WORK = Path("build") / "fuzz"
EXECUTED = re.compile(r"^(?:stat::number_of_executed_units:\s*|Done )(\d+)", re.M)
INPUT_MAX_BYTES = 16 * 1024
MEMORY_MB = 2048
HANG_SECONDS = 10


def fuzz(target: str, seconds: int) -> bool:
    """Fuzz one target; whether it held."""
    folder = WORK / target
    folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={seconds}", f"-max_len={INPUT_MAX_BYTES}", f"-rss_limit_mb={MEMORY_MB}"]
    limits += [f"-timeout={HANG_SECONDS}", "-print_final_stats=1"]
    with (folder / "log").open("w+") as log:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "fuzz.run", target, str(folder), *limits], stdout=log, stderr=subprocess.STDOUT
        )
        log.seek(0)
        text = log.read()
    executed = EXECUTED.findall(text)
    print(f"{target}: {executed[-1] if executed else 'no'} executions, {'held' if not ended.returncode else 'BROKEN'}")
    if ended.returncode:
        print(text[-4000:])
        print(f"the input is in {folder / 'found'}; keep it under tests/hostile/crashers/{target}/ once it is fixed")
    return not ended.returncode


def main() -> None:
    """Parse the options and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    options = parser.parse_args()
    if find_spec("atheris") is None:
        sys.exit("fuzzing needs atheris: .venv/bin/pip install atheris")
    held = [fuzz(target, options.seconds) for target in options.targets or TARGETS]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()

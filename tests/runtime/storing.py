"""A runtime in a process of its own that keeps contents without end, and prints the ref of each that is durable."""

import sys
from pathlib import Path

from runtime.contents import Contents, Uploader
from tests.runtime.runtimes import settings

if __name__ == "__main__":
    folder, address = sys.argv[1:]
    with Contents(Path(folder)) as contents:
        uploader = Uploader(contents, settings(address))
        uploader.start()
        print("ready", flush=True)
        number = 0
        while True:
            number += 1
            print(contents.put(f"{number} " * 500).ref, flush=True)

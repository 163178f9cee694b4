"""``python -m autotune.engine.simulated``: the simulated server as its own process."""

from __future__ import annotations

from autotune.engine.simulated.server import main

if __name__ == "__main__":
    main()

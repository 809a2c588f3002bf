"""The small workflow among those that this process serves: importing this module registers it.

Only a worker of the experiment and its fork server import it; what else needs the steps takes them from `steps`.
"""

from __future__ import annotations

from experiments.soaking.steps import EFFECTS, VERSION, build
from graph import versions
from graph.versions import Version

versions.VERSIONS[VERSION] = Version(
    name=VERSION, build=build, recursion_limit=25, allowed_kinds=frozenset(EFFECTS.values())
)
versions.SERVED = tuple(versions.VERSIONS)

"""Raw zone, staging and lake over any file system that fsspec knows."""

from ptkstore.adapters.objects.bundles import FsspecBundles
from ptkstore.adapters.objects.checkpoints import FsspecCheckpoints
from ptkstore.adapters.objects.connecting import read_environment
from ptkstore.adapters.objects.lake import FsspecLake
from ptkstore.adapters.objects.raw import FsspecRawZone
from ptkstore.adapters.objects.staging import FsspecStaging
from ptkstore.ports.keys import Sealer

__all__ = [
    "FsspecBundles",
    "FsspecCheckpoints",
    "FsspecLake",
    "FsspecRawZone",
    "FsspecStaging",
    "Sealer",
    "read_environment",
]

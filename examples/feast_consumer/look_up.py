"""A consumer who knows only Feast: reads references and entity rows as JSON, prints what Feast answers.

Run as a script, in a process of its own; it imports nothing of this project.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Answer `[{"features": [...], "entities": [...]}, ...]` from standard input."""
    import feast

    store = feast.FeatureStore(repo_path=sys.argv[1])
    answers = [
        store.get_online_features(features=ask["features"], entity_rows=ask["entities"]).to_dict()
        for ask in json.load(sys.stdin)
    ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()

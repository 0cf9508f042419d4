"""How features of a PTK are asked for: lines to copy."""

from __future__ import annotations

import json
import shlex

from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.views import columns_of, views_of

FEATURES_MOST = 4
_EXAMPLES = {"int64": 8, "int32": 8, "float64": 0.5, "double": 0.5, "bool": True}


def snippets_of(spec: PtkSpec) -> list[tuple[str, str]]:
    """Return lines for Python, Feast, the command line and HTTP; none of a PTK without a table."""
    views = views_of(spec)
    if not views:
        return []
    view, table = next(iter(views.items()))
    form = spec.tables[table]
    kinds = dict(form["columns"])
    keys: dict[str, object] = {key: _EXAMPLES.get(str(kinds.get(key)), "...") for key in form["keys"]}
    features = [f"{view}:{name}" for name in columns_of(spec, table)[:FEATURES_MOST]]
    body = json.dumps({"features": features, "entities": [keys]}, ensure_ascii=False)
    command = shlex.join(["ptk", "lookup", features[0] if features else view, *_pairs(keys)])
    quoted = body.replace("'", "'\\''")
    return [
        (
            "Python",
            "import ptkstore\n\n"
            'store = ptkstore.connect("https://ptk.example.org", token=TOKEN)\n'
            f"store.look_up({features!r}, [{keys!r}])\n"
            f"store.ptk({spec.ptk_id!r})  # the whole newest state",
        ),
        (
            "Feast",
            f"store.get_online_features(\n    features={features!r},\n    entity_rows=[{keys!r}],\n).to_dict()",
        ),
        ("Command line", command),
        (
            "HTTP",
            'curl -s https://ptk.example.org/v1/lookups -H "Authorization: Bearer $PTK_TOKEN" \\\n'
            f"  -H 'Content-Type: application/json' \\\n  -d '{quoted}'",
        ),
    ]


def _pairs(keys: dict[str, object]) -> list[str]:
    return [f"{key}={'true' if value is True else value}" for key, value in keys.items()]

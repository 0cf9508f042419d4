"""The lineage of a PTK as a graph: streams, upstream versions, the PTK, its versions, Feast views, subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ptkstore.console.graphs import Graph, Node, drawn
from ptkstore.console.pages.origins import Origins
from ptkstore.console.pages.shown import shown_time
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.ptks.views import columns_of, views_of

LAYERS_MOST = 4
"""Layers of upstream versions; the farther ones are one node."""
BESIDE_MOST = 2
"""Nodes of one kind in a layer; the others are one node."""
COLUMNS_NAMED = 6

May = Callable[[str, str], bool]
"""Whether the reader may open the page of a `stream` or a `ptk` of this name."""


def lineage_graph(
    spec: PtkSpec,
    *,
    columns: Sequence[str],
    newest: Mapping[str, Any] | None,
    origins: Origins | None,
    shown: int | None,
    subscriptions: Sequence[Mapping[str, Any]],
    may: May,
) -> Graph:
    """Draw where a PTK comes from and where it goes, as far as the reader may see it.

    Parameters
    ----------
    columns : sequence of str
        What it reads of its stream.
    newest : Mapping or None
        The manifest of its newest version, which is online; None without one, or for a reader of no states.
    origins : Origins or None
        What the version that is shown was made from.
    shown : int or None
        The number of that version.
    subscriptions : sequence of Mapping
        Those of the reader's team to this PTK.
    """
    nodes = [_stream(spec, columns, origins, may)]
    edges = [("stream", "ptk")]
    if spec.tested_on != spec.stream:
        href = f"/streams/{spec.tested_on}" if may("stream", spec.tested_on) else ""
        nodes.append(Node("tests", "stream", spec.tested_on, "its rows test each state", href))
        edges.append(("tests", "ptk"))
    if (start := spec.start_from) is not None:
        nodes.append(_start(start, may))
        edges.append(("start", "ptk"))
    guarantee = f"ε {spec.loss.epsilon:g} per {'report' if spec.is_averaged else 'training'}"
    nodes.append(Node("ptk", "PTK", spec.ptk_id, f"{spec.family}, {guarantee}"))
    ends = ["ptk"]
    if newest is not None:
        number = int(newest["version"])
        more_nodes, more_edges = _versions(spec.ptk_id, number, shown or number, newest, origins, may)
        nodes += more_nodes
        edges += more_edges
        ends = [f"{spec.ptk_id} v{number}"]
    views = [
        Node(f"view {view}", "Feast view", view, _features(len(columns_of(spec, table))))
        for view, table in views_of(spec).items()
    ]
    some = _some(views, "views", "Feast view", f"{len(views) - BESIDE_MOST} more Feast views")
    nodes += some
    edges += [(end, one.key) for end in ends for one in some]
    ends = [one.key for one in some] or ends
    told = [
        Node(one["id"], "subscription", one["id"], str(one["status"]), f"/subscriptions/{one['id']}")
        for one in subscriptions
    ]
    more = Node(
        "subscriptions", "subscription", f"{len(told) - BESIDE_MOST} more", "subscriptions", "/deliveries"
    )
    nodes += [*told[:BESIDE_MOST], *([more] if len(told) > BESIDE_MOST else [])]
    edges += [(end, one.key) for end in ends for one in (*told[:BESIDE_MOST], more)]
    return drawn(nodes, edges)


def _stream(spec: PtkSpec, columns: Sequence[str], origins: Origins | None, may: May) -> Node:
    names = ", ".join(columns[:COLUMNS_NAMED]) + (", …" if len(columns) > COLUMNS_NAMED else "")
    span = ""
    if origins is not None and origins.oldest:
        span = f"{shown_time(origins.oldest)} to {shown_time(origins.newest)}"
    note = "; ".join(one for one in (names, span) if one)
    href = f"/streams/{spec.stream}" if may("stream", spec.stream) else ""
    return Node("stream", "stream", spec.stream, note, href)


def _start(start: StartFrom, may: May) -> Node:
    href = f"/ptks/{start.ptk_id}?version={start.number}" if may("ptk", start.ptk_id) else ""
    return Node("start", "version", str(start), "devices begin with it", href)


def _versions(
    ptk_id: str, number: int, shown: int, newest: Mapping[str, Any], origins: Origins | None, may: May
) -> tuple[list[Node], list[tuple[str, str]]]:
    """The versions that one was made from, that one, and the newest one, with the edges between them."""
    nodes, edges, place = list[Node](), list[tuple[str, str]](), dict[str, str]()
    layers = () if origins is None else origins.layers
    near, far = layers[-LAYERS_MOST:], layers[:-LAYERS_MOST]
    n_far = sum(map(len, far))
    if n_far or (origins is not None and origins.cut):
        nodes.append(Node("earlier", "version", f"{n_far} earlier versions" if n_far else "earlier versions"))
        place |= {f"{one.ptk_id} v{one.version}": "earlier" for layer in far for one in layer}
    for depth, layer in enumerate(near):
        for one in layer[:BESIDE_MOST]:
            name = f"{one.ptk_id} v{one.version}"
            readable = one.decision != "unknown"
            href = f"/ptks/{one.ptk_id}?version={one.version}" if readable and may("ptk", one.ptk_id) else ""
            note = one.decision if readable else "not to be read"
            nodes.append(
                Node(name, "version", name, note if one.intact or not readable else "manifest differs", href)
            )
            place[name] = name
        rest = layer[BESIDE_MOST:]
        if rest:
            nodes.append(Node(f"more {depth}", "version", f"{len(rest)} more versions"))
            place |= {f"{one.ptk_id} v{one.version}": f"more {depth}" for one in rest}
    for here in dict.fromkeys((shown, number)):
        name = f"{ptk_id} v{here}"
        note = "newest version" if here == number else "older version"
        if name not in place:
            nodes.append(Node(name, "version", name, note, f"/ptks/{ptk_id}?version={here}", here == shown))
            place[name] = name
    for layer in layers:
        for one in layer:
            made = place[f"{one.ptk_id} v{one.version}"]
            edges += [(place[name], made) for name in one.made_from if name in place]
            edges += [("earlier", made) for name in one.made_from if name not in place]
    edges += list(_made(newest, f"{ptk_id} v{number}", place))
    if layers:
        edges += [(place[f"{one.ptk_id} v{one.version}"], f"{ptk_id} v{shown}") for one in layers[-1]]
    own = [one.key for one in nodes if one.key == "earlier" or one.key.startswith(f"{ptk_id} v")]
    continued = {end for start, end in edges if start in own and start != end}
    edges += [("ptk", key) for key in own if key not in continued]
    return nodes, edges


def _made(content: Mapping[str, Any], name: str, place: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for origin in content.get("made_from") or ():
        one = f"{origin['ptk_id']} v{origin['version']}"
        if one in place:
            yield place[one], name


def _some(nodes: Sequence[Node], key: str, kind: str, more: str) -> list[Node]:
    """The first nodes of a kind, and one for all others."""
    return [*nodes[:BESIDE_MOST], *([Node(key, kind, more)] if len(nodes) > BESIDE_MOST else [])]


def _features(number: int) -> str:
    return f"{number} feature{'' if number == 1 else 's'}"

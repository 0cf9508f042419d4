"""The picture of the rooms: which package imports which."""

from infra.docs.pictures.drawing import Drawing


def rooms() -> Drawing:
    """Boxes from the entrances at the top to the library at the bottom."""
    d = Drawing(
        "Rooms",
        "Imports point down: workers, serving, api, console and cli, sdk, wiring and training_process, adapters,"
        " application, ports, domain, ptklib.",
        686,
    )
    d.box(10, 74, 620, 532, "none dashed")
    d.text(616, 98, "ptkstore", "end", "soft")
    d.box(20, 14, 300, 40, "private", "workers: Celery worker, relay, schedule")
    d.box(20, 92, 300, 40, "own", "serving: puts both on one server")
    d.box(20, 156, 120, 40, "own", "api: HTTP")
    d.box(156, 156, 164, 40, "own", "console: web pages")
    d.box(340, 156, 180, 40, "own", "cli: the command ptk")
    d.box(20, 220, 500, 40, "own", "sdk: Python client, in a home and over HTTP")
    d.box(20, 284, 290, 48, "plain", "wiring: puts the parts together")
    d.box(330, 284, 290, 48, "private", "training_process: opens rows,", "lives for one run")
    d.box(
        20, 356, 600, 48, "plain",
        "adapters: one room for each vendor", "sql, objects, keys, feast, sandbox, webhooks, ...",
    )  # fmt: skip
    d.box(20, 428, 600, 36, "plain", "application: use cases, one transaction each")
    d.box(20, 488, 600, 36, "plain", "ports: what use cases ask of the world")
    d.box(20, 548, 600, 44, "public", "domain: rules without input or output")
    d.box(20, 628, 600, 44, "public", "ptklib: estimators, mechanisms, accounting; works alone")
    for x, y, to_x, to_y in (
        (170, 54, 170, 91), (80, 132, 80, 155), (238, 132, 238, 155),
        (80, 196, 80, 219), (238, 196, 238, 219), (430, 196, 430, 219),
        (165, 260, 165, 283), (165, 332, 165, 355), (475, 332, 475, 355),
        (320, 404, 320, 427), (320, 464, 320, 487), (320, 524, 320, 547), (320, 592, 320, 627),
    ):  # fmt: skip
        d.arrow(x, y, to_x, to_y)
    return d

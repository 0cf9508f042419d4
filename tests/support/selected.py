"""A published PTK whose rows do not all have the same noise: of two values, one is found a window later."""

from __future__ import annotations

from ptklib import CountFeaturizer
from tests.support.world import World, trips

PTK = "taxi.zones"


def publish_selected(world: World) -> None:
    """Publish two versions in a real Feast: the second finds the zone 'late', which has less noise then."""
    del world.service.__dict__["features"]
    world.stream(epsilon=10, capacity_delta=1e-3)
    counts = CountFeaturizer(
        ["zone"], "long", classes=(False, True), select={"zone": "string"}, epsilon=8.0, delta=1e-5
    )
    world.register("zones", estimator=counts.to_spec())
    for day, zones in enumerate((["early"] * 200, ["early", "late"] * 100)):
        days = [day + 0.5] * len(zones)
        world.service.ingest("taxi", trips(days, zone=zones))
        world.close(day + 1)
        world.work()
        world.work("flip")

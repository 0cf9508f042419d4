"""The demo's input: trips that a seeded generator makes up, or trips read from a file.

Generated trips are called so wherever they are shown (`GENERATED`).
The made-up city has TLC's numbering, 263 zones, and:

- a centre (the ids TLC gives to Manhattan) with most pickups, a few very popular zones, three airports;
- commuting peaks on weekdays, in the morning from the outer zones; night life at weekends;
- distances that are log-normal around the way between two zones;
- speeds that fall in rush hours and in the centre and rise with the length of a trip; durations follow;
- about 1 % of dirty rows, as real files have them: no distance, no or negative duration, a meter left running
  for a day, an absurd distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

import numpy as np
import pyarrow as pa

from ptklib.arrays import Bools, Floats, Ints
from ptkstore.cli.demo.columns import COLUMNS, TIME_COLUMN, assemble, first_day
from ptkstore.cli.demo.tlc import load
from ptkstore.errors import InvalidRequest

__all__ = ["COLUMNS", "GENERATED", "TIME_COLUMN", "first_day", "generate", "load"]

GENERATED: Final = "generated NYC-like trips (a seeded generator; nobody took them)"
N_ZONES: Final = 263

# fmt: off
_CENTRE: Final = (
    4, 12, 13, 24, 41, 42, 43, 45, 48, 50, 68, 74, 75, 79, 87, 88, 90, 100, 103, 104, 105, 107, 113, 114,
    116, 120, 125, 127, 128, 137, 140, 141, 142, 143, 144, 148, 151, 152, 153, 158, 161, 162, 163, 164, 166,
    170, 186, 194, 202, 209, 211, 224, 229, 230, 231, 232, 233, 234, 236, 237, 238, 239, 243, 244, 246, 249,
    261, 262, 263,
)
_AIRPORTS: Final = (1, 132, 138)
_NIGHT_LIFE: Final = (79, 114, 144, 148, 158, 211, 231, 249, 255, 256)
# Relative pickups and typical speed (mph) by hour, shaped after the public monthly reports of the taxi
# commission.
_WEEKDAY = (12, 8, 5, 4, 5, 10, 26, 48, 58, 52, 47, 47, 50, 50, 53, 54, 52, 60, 66, 62, 54, 48, 38, 24)
_WEEKEND = (50, 44, 36, 26, 14, 9, 11, 16, 24, 34, 42, 46, 50, 51, 51, 50, 49, 51, 54, 54, 51, 50, 53, 53)
_WEEKDAY_MPH = (
    19, 20, 21, 22, 23, 21, 16, 12, 10, 11, 11.5, 11.5, 11.5, 11.5, 11, 10.5, 10.5, 9.5, 10, 12, 13.5, 14.5,
    15.5, 17,
)
_WEEKEND_MPH = (
    15.5, 16, 17, 18.5, 20, 22, 22, 21, 18.5, 16.5, 15, 14, 13.5, 13, 13, 13, 13, 13, 13, 13.5, 14, 14.5, 15,
    15,
)
# fmt: on

_CITY_SEED: Final = 1811  # the map is the same for every seed of trips


@dataclass(frozen=True)
class _City:
    """Places of zones, and how often a trip begins or ends in each. Row and column `i` stand for zone `i + 1`."""

    pickups: Floats  # (regime, zone), rows sum to 1
    reach: Floats  # (zone, zone), rows are cumulative probabilities
    miles: Floats  # (zone, zone), median way
    pace: Floats  # (zone,), factor on speed


_BY_DAY, _MORNING, _NIGHT = range(3)


def generate(
    n_rows: int = 200_000, days: int = 5, seed: int = 20260105, start: date = date(2026, 1, 5)
) -> pa.Table:
    """Make up `n_rows` trips of `days` days from `start` on, in order of time; same arguments, same trips."""
    if n_rows < 1 or days < 1:
        raise InvalidRequest("generated trips need at least one row and one day")
    # numpy's generator makes up the *data*; the noise that protects data comes from ptklib.mechanisms alone
    rng = np.random.default_rng(seed)
    city = _city(np.random.default_rng(_CITY_SEED))

    weekend_day = np.array([(start.toordinal() - 1 + day) % 7 >= 5 for day in range(days)])
    per_hour = np.where(weekend_day[:, None], _WEEKEND, _WEEKDAY).astype(np.float64).ravel()
    slot = np.repeat(np.arange(days * 24), rng.multinomial(n_rows, per_hour / per_hour.sum()))
    hour, weekend = slot % 24, weekend_day[slot // 24]
    offset_us = np.sort(slot * 3_600_000_000 + rng.integers(0, 3600, n_rows) * 1_000_000)

    pickup = _pickups(rng, city, hour, weekend)
    # one search over all rows: row i of `reach` lies in (i, i + 1]
    flat = (city.reach + np.arange(N_ZONES)[:, None]).ravel()
    dropoff = np.searchsorted(flat, rng.random(n_rows) + pickup, side="right") - pickup * N_ZONES
    dropoff = np.minimum(dropoff, N_ZONES - 1)

    distance = city.miles[pickup, dropoff] * rng.lognormal(0.0, 0.28, n_rows)
    typical = np.where(weekend, np.array(_WEEKEND_MPH)[hour], np.array(_WEEKDAY_MPH)[hour])
    pace = np.sqrt(city.pace[pickup] * city.pace[dropoff]) * (distance / 2.5) ** 0.15
    duration = np.rint(distance / (typical * pace * rng.lognormal(0.0, 0.2, n_rows)) * 3600.0)
    distance, duration = _dirty(rng, np.round(distance, 2), duration)
    start_us = np.datetime64(start, "us").astype(np.int64)
    return assemble(start_us + offset_us, pickup + 1, dropoff + 1, distance, duration)


def _city(rng: np.random.Generator) -> _City:
    centre = np.zeros(N_ZONES, dtype=bool)
    centre[np.array(_CENTRE) - 1] = True
    airports, night_life = np.array(_AIRPORTS) - 1, np.array(_NIGHT_LIFE) - 1
    # an island 1.6 by 11 miles among boroughs that reach 9 miles around it
    along, across = rng.uniform(-5.5, 5.5, N_ZONES), rng.uniform(-0.8, 0.8, N_ZONES)
    angle, radius = rng.uniform(0, 2 * np.pi, N_ZONES), rng.uniform(2.0, 9.0, N_ZONES)
    x = np.where(centre, across, radius * np.cos(angle))
    y = np.where(centre, along, radius * np.sin(angle))
    x[airports], y[airports] = (-9.0, 11.0, 5.0), (-3.0, -7.0, 3.0)
    straight = np.hypot(x[:, None] - x, y[:, None] - y)

    popularity = rng.lognormal(0.0, 0.8, N_ZONES) * np.where(centre, 1.0, 0.05)
    popularity[airports] = popularity[centre].mean() * np.array([0.2, 2.5, 2.0])
    pickups = np.tile(popularity, (3, 1))
    pickups[_MORNING] *= np.where(centre, 0.8, 2.5)
    pickups[_NIGHT, night_life] *= 4.0
    habitual_miles = np.full(N_ZONES, 2.0)
    habitual_miles[airports] = 12.0
    reach = popularity * np.exp(-straight / habitual_miles[:, None])
    return _City(
        pickups=pickups / pickups.sum(axis=1, keepdims=True),
        reach=np.cumsum(reach / reach.sum(axis=1, keepdims=True), axis=1),
        miles=0.5 + 1.2 * straight,
        pace=np.where(centre, 0.85, 1.2) * rng.uniform(0.85, 1.15, N_ZONES),
    )


def _pickups(rng: np.random.Generator, city: _City, hour: Ints, weekend: Bools) -> Ints:
    """Draw the zone of each pickup from the habits of its time of day."""
    regime = np.full(hour.size, _BY_DAY)
    regime[~weekend & (hour >= 6) & (hour < 10)] = _MORNING
    regime[weekend & ((hour < 5) | (hour >= 22))] = _NIGHT
    zones = np.empty(hour.size, dtype=np.int64)
    for index in (_BY_DAY, _MORNING, _NIGHT):
        mine = regime == index
        zones[mine] = rng.choice(N_ZONES, size=int(mine.sum()), p=city.pickups[index])
    return zones


def _dirty(rng: np.random.Generator, distance: Floats, duration: Floats) -> tuple[Floats, Floats]:
    """Spoil about 1 % of the rows."""
    fate = rng.random(distance.size)
    distance = np.where(fate < 0.005, 0.0, distance)
    distance = np.where((fate >= 0.0095) & (fate < 0.0096), distance * 10_000, distance)
    duration = np.where((fate >= 0.005) & (fate < 0.007), 0.0, duration)
    duration = np.where((fate >= 0.007) & (fate < 0.0075), -duration, duration)
    duration = np.where((fate >= 0.0075) & (fate < 0.0095), 86_400.0 - duration, duration)
    return distance, duration

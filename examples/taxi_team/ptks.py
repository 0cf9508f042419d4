"""Declares what the taxi team shares: how fast trips go, and where and when they take long.

Everything written here is public: domains, bounds and budgets may be read by anyone, so none of them may be
read off the trips. Zones are the city's own numbering; speeds above 60 mph are cut off by decision.
"""

from ptklib import CountFeaturizer, HistoricalStatistics
from ptkstore import PTK

HOURS = list(range(24))
ZONES = list(range(1, 266))  # the city's zone table: 1 to 263, 264 unknown, 265 outside

# Every day one block of trips serves all three PTKs: 0.2 + 0.3 + 0.3 = 0.8 of the stream's epsilon of 1. The
# rest stays for whoever registers next.
#
# `target` is the error a PTK aims at, in the unit of its own evaluation, which is in [0, 1]: for a
# mean, its distance from the true one as a part of the width of the bounds; for counts by class, the distance
# between released and true probabilities (total variation). Both weigh each trip the same.

speed_by_hour = PTK(
    name="speed_by_hour",
    stream="taxi",
    estimator=HistoricalStatistics(
        keys=["hour"],
        values=["speed_mph"],
        domains={"hour": HOURS},
        bounds={"speed_mph": (0.0, 60.0)},
        epsilon=0.2,
    ),
    target=0.04,  # 2.4 mph
    every="1d",
    description="Trips and mean speed (mph) by hour of day",
)

speed_by_zone = PTK(
    name="speed_by_zone",
    stream="taxi",
    estimator=HistoricalStatistics(
        keys=["pickup_zone_id"],
        values=["speed_mph"],
        domains={"pickup_zone_id": ZONES},
        bounds={"speed_mph": (0.0, 60.0)},
        epsilon=0.3,
    ),
    target=0.06,  # 3.6 mph: most zones see few trips
    every="1d",
    description="Trips and mean speed (mph) by pickup zone",
)

long_trip_counts = PTK(
    name="long_trip_counts",
    stream="taxi",
    estimator=CountFeaturizer(
        features=["pickup_zone_id", "hour"],
        label="long_trip",
        classes=[False, True],
        domains={"pickup_zone_id": ZONES, "hour": HOURS},
        epsilon=0.3,
    ),
    target=0.1,
    every="1d",
    description="How often a trip takes longer than 15 minutes, by pickup zone and by hour of day",
)

"""Draw and Discard: models that devices train with local differential privacy, and what a device does."""

from ptklib.draw_discard.columns import Categorical, Hashed, Numeric
from ptklib.draw_discard.device import Device
from ptklib.draw_discard.encoding import EncodedRows, encode_rows
from ptklib.draw_discard.instances import (
    HonestRange,
    RecentRanges,
    average_instances,
    draw_instance,
    drift_limit,
    put_report,
    spam_multiple,
    start_instances,
)
from ptklib.draw_discard.limits import Limits
from ptklib.draw_discard.losses import ReportLoss, report_loss
from ptklib.draw_discard.needed import reports_needed
from ptklib.draw_discard.odometer import Odometer
from ptklib.draw_discard.refusals import (
    DeviceError,
    LimitReached,
    NoAnswer,
    NotAllowed,
    OdometerError,
    Refused,
    ServerRefused,
    UntrustedAnswer,
)
from ptklib.draw_discard.simulation import Devices, Simulation
from ptklib.draw_discard.specification import Specification
from ptklib.draw_discard.updates import clipped_step, make_report, mean_gradient

__all__ = [
    "Categorical",
    "Device",
    "DeviceError",
    "Devices",
    "EncodedRows",
    "Hashed",
    "HonestRange",
    "LimitReached",
    "Limits",
    "NoAnswer",
    "NotAllowed",
    "Numeric",
    "Odometer",
    "OdometerError",
    "RecentRanges",
    "Refused",
    "ReportLoss",
    "ServerRefused",
    "Simulation",
    "Specification",
    "UntrustedAnswer",
    "average_instances",
    "clipped_step",
    "draw_instance",
    "drift_limit",
    "encode_rows",
    "make_report",
    "mean_gradient",
    "put_report",
    "report_loss",
    "reports_needed",
    "spam_multiple",
    "start_instances",
]

"""The picture of the protocol of devices: who sends what to whom, from top to bottom."""

from infra.docs.pictures.drawing import Drawing

BACKEND, DEVICE, SERVER = 100, 320, 540
MESSAGES: tuple[tuple[int, int, str] | str, ...] = (
    (BACKEND, SERVER, "POST /v1/device-streams/{stream}/tickets"),
    (SERVER, BACKEND, "tickets"),
    (BACKEND, DEVICE, "one ticket"),
    (DEVICE, SERVER, "GET /v1/device/specification"),
    (SERVER, DEVICE, "specification, window, limits"),
    "refuse, or go on",
    (DEVICE, SERVER, "POST /v1/device/draw"),
    (SERVER, DEVICE, "an instance"),
    "compute a report, write the odometer",
    (DEVICE, SERVER, "POST /v1/device/put"),
)
ANSWERS = {"tickets", "one ticket", "specification, window, limits", "an instance"}


def protocol() -> Drawing:
    """Three life lines, with messages between them."""
    bottom = 62 + 40 * len(MESSAGES) + 10
    d = Drawing(
        "The protocol of devices",
        "The backend gets tickets from the server and gives one to the device. The device reads the specification,"
        " draws an instance, computes a report and puts it back.",
        bottom + 12,
    )
    for x, name in ((BACKEND, "the app's backend"), (DEVICE, "device"), (SERVER, "server")):
        d.box(x - 75, 12, 150, 36, "own", name)
        d.line(x, 48, x, bottom, "dashed")
    for place, message in enumerate(MESSAGES):
        y = 94 + 40 * place
        if isinstance(message, str):
            d.box(DEVICE - 145, y - 24, 290, 30, "private", message)
            continue
        source, target, text = message
        d.arrow(source, y, target, y, "dashed" if text in ANSWERS else "")
        d.text((source + target) / 2, y - 8, text, "middle", "ink small over")
    return d

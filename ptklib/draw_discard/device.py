"""A device: learns from rows that stay on it, and sends noise with a little of them."""

import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any, Self

import numpy as np

from ptklib.draw_discard.encoding import ROWS_MAX, encode_rows
from ptklib.draw_discard.limits import Limits, StreamLimits
from ptklib.draw_discard.losses import report_loss
from ptklib.draw_discard.odometer import Odometer
from ptklib.draw_discard.record import Report, moment
from ptklib.draw_discard.refusals import NoAnswer, NotAllowed, ServerRefused, UntrustedAnswer
from ptklib.draw_discard.specification import TEXT_BYTES_MAX, Specification
from ptklib.draw_discard.transport import Server, json_object
from ptklib.draw_discard.updates import Weights, make_report
from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import finite_number, whole_number

PUTS = 3
"""How often one report is sent until there is an answer. It is the same report, so it loses nothing more."""

AHEAD = timedelta(days=3651)
"""The end of a window may be so far ahead of the device's clock: no stream has longer windows."""

_OFFER_BYTES_MAX = 2 * TEXT_BYTES_MAX + 2**14
"""Quotation marks of the specification are written with a backslash."""

_TICKET = re.compile(r"[A-Za-z0-9_=-]{1,512}")
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
_TAKEN = "ticket-used"


@dataclass(frozen=True, slots=True)
class Offer:
    """The settings that a server asks of a device.

    Parameters
    ----------
    specification : Specification
    stream, ptk : str
    window : int
        Number of the open window.
    window_ends : datetime
    limits : StreamLimits
    """

    specification: Specification
    stream: str
    ptk: str
    window: int
    window_ends: datetime
    limits: StreamLimits

    @classmethod
    def of(cls, octets: bytes) -> Self:
        """Read the answer to a request for the specification.

        Raises
        ------
        UntrustedAnswer
            When a field is missing or unusable, or the text has another digest than is said.
        """
        document = json_object(octets)
        try:
            text, digest = document.get("specification"), document.get("digest")
            if not isinstance(text, str):
                raise InvalidParameterError("the specification must be a text")
            specification = Specification.from_text(text)
            if specification.digest != digest:
                raise InvalidParameterError("the specification has another digest")
            window = document.get("window")
            if not isinstance(window, dict):
                raise InvalidParameterError("the window must be an object")
            limits = document.get("limits")
            return cls(
                specification,
                _name(document.get("stream")),
                _name(document.get("ptk")),
                whole_number(window.get("number"), "the number of the window", 0, 2**53),
                moment(window.get("ends")),
                StreamLimits.from_json(limits),
            )
        except InvalidParameterError as error:
            raise UntrustedAnswer(f"the device refuses the specification: {error}") from None

    def columns(self) -> list[str]:
        """Return the columns that the specification reads."""
        return [*(feature.column for feature in self.specification.features), self.specification.label.column]


class Device:
    """One device of a person, which contributes to models of a server.

    Parameters
    ----------
    url : str
        Of the server: ``https://host[:port][/path]``.
    home : str or Path
        A folder of its own for the odometer: see `Odometer`.
    limits : Limits, optional
        The limits that the person allows; used if the home has no limits yet. Afterwards those of the home
        count, and `allow` changes them. So a new version of an app cannot allow more by itself.
    tickets : callable, optional
        Returns a new ticket: the app asks its backend for one. Or give `contribute` the ticket.
    ask : callable, optional
        Is called with the `NotAllowed` of a specification that asks for more. If it returns True, the limits that are
        kept by then are widened by what this specification needs. Without it the error is raised.
    timeout_seconds : float, default 30
        For one request.
    pace_seconds : float, default 1
        Draw and put are sent so long after the answer before. Larger models wait a multiple of it that is
        fixed before rows are read (`paces`). The computing time of a device depends on its rows, and is not
        seen.
    tls : ssl.SSLContext, optional
        For a private certificate authority.

    Notes
    -----
    Needs no service: the standard library, numpy and the samplers of ptklib.

    Examples
    --------
    >>> from ptklib.draw_discard import Device, Limits
    >>> limits = Limits(report_epsilon=3.5, reports_per_window=1, reports_in_all=8, columns=["hour", "clicked"])
    >>> device = Device("https://ptk.example.org", "~/.phishy", limits=limits)
    >>> device.contribute({"hour": [9, 17], "clicked": [1, 0]}, ticket=from_backend)  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str,
        home: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        tickets: Callable[[], str] | None = None,
        ask: Callable[[NotAllowed], bool] | None = None,
        timeout_seconds: float = 30.0,
        pace_seconds: float = 1.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._server = Server(url, timeout_seconds=timeout_seconds, tls=tls)
        self.odometer = Odometer(home)
        self._limits, self._tickets, self._ask = limits, tickets, ask
        self._pace_seconds = finite_number(pace_seconds, "pace_seconds", InvalidParameterError)
        if not 0 <= self._pace_seconds <= 3600:
            raise InvalidParameterError("pace_seconds must be in [0, 3600]")

    def allow(self, limits: Limits) -> None:
        """Keep what the person allows from now on."""
        self.odometer.allow(limits)

    def contribute(self, table: Any, ticket: str | None = None) -> Report:
        """Send one report on rows, and return what the odometer keeps of it.

        Parameters
        ----------
        table : mapping of columns, or table
            The rows of this device, as for `encode_rows`. A table without rows makes a report as well: a device that
            only reports when it has rows tells that it has some.
        ticket : str, optional
            By default, one of `tickets`.

        Raises
        ------
        NotAllowed, LimitReached, UntrustedAnswer, OdometerError
            The device refuses: nothing that depends on the rows has left it, and nothing is counted.
        SchemaError
            The table lacks a column, or cannot be read. As before.
        ServerRefused, NoAnswer
            If `counted` is True, the report left the device, or may have.

        Notes
        -----
        :Guarantee: `report_loss` of the specification, which the odometer has counted before the report is sent.
        :Unit: all rows of the device.
        :Neighbours: any two tables.
        :Mechanism: `make_report`.
        """
        checked = self._ticket(ticket)
        if self._limits is not None:
            self.odometer.begin(self._limits)
        offer = Offer.of(
            self._server.ask("GET", "/v1/device/specification", checked, most=_OFFER_BYTES_MAX).body
        )
        started = monotonic()
        planned, columns = self._planned(offer), offer.columns()
        self._permitted(planned, columns)
        pace_seconds = self._pace_seconds * paces(offer.specification)
        encoded = encode_rows(
            offer.specification, table
        )  # raises what is wrong with the table, before a draw
        _until_next_tick(started, pace_seconds)
        instance = self._draw(checked, offer.specification)
        started = monotonic()
        report = make_report(offer.specification, instance, encoded)
        _until_next_tick(started, pace_seconds)
        self.odometer.spend(planned, columns)
        self._put(checked, report)
        return planned

    def _ticket(self, given: str | None) -> str:
        if given is None:
            if self._tickets is None:
                raise InvalidParameterError("give a ticket, or give the device a way to get tickets")
            given = self._tickets()
        if not isinstance(given, str) or _TICKET.fullmatch(given) is None:
            raise InvalidParameterError("a ticket is a text of base64url")
        return given

    def _planned(self, offer: Offer) -> Report:
        now = datetime.now(UTC).replace(microsecond=0)
        if offer.window_ends > now + AHEAD:
            raise UntrustedAnswer("the window ends more than ten years from now, by this device's clock")
        try:
            loss = report_loss(offer.specification).whole
        except InvalidParameterError as error:
            raise UntrustedAnswer(f"the loss of a report cannot be stated: {error}") from None
        return Report(
            at=now,
            server=self._server.name,
            stream=offer.stream,
            ptk=offer.ptk,
            window=offer.window,
            window_ends=offer.window_ends,
            specification=offer.specification.digest,
            epsilon=loss.epsilon,
            delta=loss.delta,
            limits=offer.limits,
        )

    def _permitted(self, planned: Report, columns: list[str]) -> None:
        try:
            self.odometer.check(planned, columns)
        except NotAllowed as error:
            if self._ask is None or self._ask(error) is not True:
                raise
            self.odometer.widen(planned, columns)
            self.odometer.check(planned, columns)

    def _draw(self, ticket: str, specification: Specification) -> Weights:
        n_bytes = 4 * specification.n_weights
        answer = self._server.ask("POST", "/v1/device/draw", ticket, most=n_bytes, body=b"")
        if answer.headers.get("ptk-specification") != specification.digest:
            raise UntrustedAnswer("the drawn instance belongs to another specification")
        if len(answer.body) != n_bytes:
            raise UntrustedAnswer("the drawn instance has another length")
        return np.frombuffer(answer.body, dtype="<i4").astype(np.int32)

    def _put(self, ticket: str, report: Weights) -> None:
        body = report.astype("<i4").tobytes()
        for attempt in range(PUTS):
            try:
                self._server.ask("POST", "/v1/device/put", ticket, most=0, body=body)
                return
            except NoAnswer as error:
                if attempt == PUTS - 1:
                    raise NoAnswer(f"the report may have arrived: {error}", counted=True) from None
            except ServerRefused as error:
                if attempt and error.code == _TAKEN:
                    return  # it had arrived before
                raise ServerRefused(error.code, error.status, counted=True) from None
            except UntrustedAnswer as error:
                raise NoAnswer(f"the report has left the device: {error}", counted=True) from None
            sleep(self._pace_seconds)


def paces(specification: Specification) -> int:
    """Return how many times `pace_seconds` a device waits: by the work of the most rows, which is public.

    A fast device does at least 2**24 products in a second. One that is slower waits for another multiple.
    """
    products = ROWS_MAX * len(specification.sizes) * specification.n_scores
    return max(1, -(-products // 2**24))


def _until_next_tick(started: float, pace_seconds: float) -> None:
    if pace_seconds:
        sleep(pace_seconds - (monotonic() - started) % pace_seconds)


def _name(value: object) -> str:
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise InvalidParameterError("stream and ptk must be names")
    return value

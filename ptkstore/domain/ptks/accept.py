"""The test of a PTK for each trained state before it becomes a version: `accept` of its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from ptkstore.domain.accounting.losses import checked_epsilon
from ptkstore.domain.durations import duration
from ptkstore.domain.evaluations import AskedSums, evaluation_sums
from ptkstore.domain.names import checked_name
from ptkstore.errors import InvalidRequest

_TIMEOUT, _STREAM = "timeout", "stream"


@dataclass(frozen=True, slots=True)
class Accept:
    """The verdict that each trained state of a PTK needs.

    Attributes
    ----------
    sums : AskedSums
        The source of the verdict.
    confidence : float
        In (0, 1), of all looks together.
    timeout : timedelta or None
        How long the PTK is trained for an accepted version; None for as long as it takes.
    terms : mapping
        The team's own text, without timeout and stream. The library reads it, and a state is validated only while its
        PTK still says the same.
    stream : str or None
        The labelled stream whose test blocks pay for verdicts on a model that devices train; None where the stream of
        the PTK has rows of its own.
    """

    sums: AskedSums
    confidence: float
    timeout: timedelta | None
    terms: Mapping[str, Any]
    stream: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self | None:
        """Read the config of a PTK; None if its states need no verdict.

        Raises
        ------
        InvalidRequest
            `accept` is no mapping with an `epsilon`, or it names an epsilon, a confidence, a timeout or a stream that
            cannot be used. The library checks its metric, and whether the family can be validated so.
        """
        from ptklib.exceptions import InvalidParameterError
        from ptklib.validation.looks import DEFAULT_CONFIDENCE, check_confidence

        given = config.get("accept")
        if given is None:
            return None
        if not isinstance(given, Mapping) or "epsilon" not in given:
            raise InvalidRequest(
                'accept of a PTK says {"metric": "loss", "epsilon": 0.05}, and may say a confidence'
            )
        terms = {name: value for name, value in given.items() if name not in (_TIMEOUT, _STREAM)}
        epsilon, reject = checked_epsilon(terms["epsilon"], "epsilon of accept"), None
        if "reject_epsilon" in terms:
            reject = float(checked_epsilon(terms["reject_epsilon"], "reject_epsilon of accept"))
        try:
            confidence = check_confidence(terms.get("confidence", DEFAULT_CONFIDENCE))
        except InvalidParameterError as error:
            raise InvalidRequest(f"accept of a PTK: {error}") from error
        sums = AskedSums(float(epsilon), str(terms.get("metric", "loss")), reject)
        timeout, stream = given.get(_TIMEOUT), given.get(_STREAM)
        return cls(
            sums,
            confidence,
            None if timeout is None else duration(timeout),
            terms,
            None if stream is None else checked_name("stream", stream),
        )


def asked_sums(config: Mapping[str, Any]) -> AskedSums | None:
    """Return the sums of a test set that a PTK pays for, for a verdict or for an estimate; None for neither."""
    accept = Accept.of(config)
    return evaluation_sums(config) if accept is None else accept.sums

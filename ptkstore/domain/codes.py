"""What the fixed codes of jobs, runs, notices and dead letters say: the sentences of their page and of `ptk`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

JOB: Final = "Outcome of a job"
RUN: Final = "End of a run"
NOTICE: Final = "Notice"
LETTER: Final = "Dead letter"
_MACHINE: Final = "Something of the service or its machine went wrong: see the worker's log."

GROUPS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "Outcomes of jobs": {
        "done": {JOB: "The job did its work and made no version by itself: it prepared a window, validated, profiled or estimated."},
        "published": {JOB: "The job made a version."},
        "refused": {JOB: "A rule said no: the blocks had no room for its loss, its looks left no confidence, or an average moved too far."},
        "failed": {
            JOB: "Something went wrong. The notice to the owner has a code that says more.",
            RUN: _MACHINE,
            LETTER: "An error of the service itself. The operator finds it in the relay's log. Send the version again afterwards: `ptk redeliver`.",
        },
        "expired": {
            JOB: "The window expired before the job was done.",
            RUN: "Its window expired first. Train sooner, or give the stream a longer retention.",
        },
        "withdrawn": {
            JOB: "The PTK was deregistered, or no longer needs the job.",
            RUN: "The PTK was deregistered, or changed. If it was changed, the next window trains it as it is now.",
        },
        "disabled": {JOB: "The subscription is disabled, so that nothing is delivered to it. `ptk enable` sends to it again."},
    },
    "Ends of runs": {
        "budget-denied": {RUN: "The blocks had no room for it, and nothing was spent. `ptk budget STREAM` shows what is left. The next window has new blocks."},
        "changed-after-its-reservation": {RUN: "The PTK was changed after its loss was reserved. The next window trains it as it is now."},
        "recovered": {RUN: "`ptk ledger recover` ended it."},
        "timeout": {
            RUN: "It took longer than `PTK_TRAIN_TIMEOUT_SECONDS` allows.",
            LETTER: "The endpoint did not answer in time.",
        },
        "memory-limit": {RUN: "It needed more memory than `PTK_TRAIN_MEMORY_MIB` allows."},
        "team-code-failed": {RUN: "The code of its team failed, [however it did](../guide/team-code.md#the-sandbox). Run it on rows of your own to see why."},
        "undeclared-value": {RUN: "The code of its team released a key or a text that it had [not declared](../guide/team-code.md#declared-values)."},
        "no-sandbox": {RUN: "The sandbox of team code did not work when it was needed. The operator looks at `ptk sandbox`."},
        "staging-failed": {RUN: "The raw zone took its result neither at once nor within a minute, as on a disk that is full."},
        "killed": {RUN: "Its process was killed. " + _MACHINE},
        "trainer-error": {RUN: _MACHINE},
        "bad-output": {RUN: "Its process left a result that cannot be read. " + _MACHINE},
        "rows-gone": {RUN: "A file of its rows is gone. " + _MACHINE},
        "rows-corrupt": {RUN: "A file of its rows is damaged. " + _MACHINE},
        "waits-for-verdict": {RUN: "It is no end: the state of the training waits for its validation."},
    },
    "Validations": {
        "validation-retry": {NOTICE: "The trained state did not [pass its test](../guide/validated-versions.md). The PTK looks again, on more rows or with more loss."},
        "validation-timeout": {NOTICE: "No state was accepted for the `timeout` of the PTK, so that it is trained no longer."},
        "validation-reject": {NOTICE: "[No model of its class](../guide/validated-versions.md#reject) meets the target, so that the PTK is trained no longer."},
        "validation-confidence-used-up": {NOTICE: "Its looks left nothing of its confidence. No look could accept anything, so that the PTK is trained no longer."},
        "confidence-used-up": {RUN: "The looks of the PTK left nothing of its confidence, so that this look could not accept anything and did not begin."},
        "validation-denied": {NOTICE: "There is no verdict: the test blocks had no room."},
        "candidate-unreadable": {NOTICE: "There is no verdict: the draft could not be read."},
        "more-than-it-may-have": {NOTICE: "The PTK may not have a look with more loss or more windows. It has no reserved budget until [it changes](../guide/scheduling.md#see-who-waits)."},
        "passed-over": {NOTICE: "The PTK has waited for long on a budgeting stream, and [others are served first](../guide/scheduling.md#who-is-served-first)."},
        "evaluation-denied": {NOTICE: "There is no estimate of the version: the test blocks had no room."},
    },
    "Profiles and comparisons": {
        "profiled": {NOTICE: "The [profile](../guide/profiling.md) is there: each epsilon that was asked has an answer."},
        "profiled-in-part": {NOTICE: "The profile has answers for some of the epsilons that were asked, and asks no further window."},
        "profile-needs-more": {NOTICE: "No epsilon has an answer after the last window that was asked. Give the profile more rows, or a larger target."},
        "profile-target-unreachable": {NOTICE: "No model of this family reaches the target. Choose a larger one."},
        "profile-budget-denied": {NOTICE: "The profile blocks of this window cannot pay for the profile. It waits for the next window."},
        "profile-refused": {NOTICE: "The library refused what the profile asks. Nothing was reserved. Check its settings in the declaration."},
        "profile-set-too-small": {NOTICE: "The profile set of this stream is too small for any answer. `ptk show PTK` says how many units it takes."},
        "profile-set-too-large": {NOTICE: "The profile set is larger than the proof allows: sums of more than 2^23 rows are not exact enough."},
        "profile-over-budget": {NOTICE: "The profile costs more than a block may lose. Ask for fewer epsilons, or give it a larger budget."},
        "profile-drifted": {NOTICE: "A drift test found that the profile fits no longer. It is made anew, and plans use it no more."},
        "version-unreadable": {RUN: "A version that was to be compared cannot be read."},
        "threshold-gone": {RUN: "The noisy threshold of the comparison is gone, so that it cannot be asked again."},
    },
    "Models that devices train": {
        "instances-unavailable": {NOTICE: "The server of instances did not answer for the average of a window. Workers try again until it does."},
        "instances-lost": {NOTICE: "The instances of the PTK were lost before this window. Devices have begun anew."},
        "average-moved-too-far": {NOTICE: "Reports moved the average [further than honest ones do](../guide/device-streams.md#an-average-that-moved-too-far). The window made no version, and devices begin anew around the last one."},
        "no-test-rows": {NOTICE: "The [labelled stream](../guide/device-streams.md#only-versions-that-are-good-enough) of the PTK keeps no window to test an average on."},
        "no-new-test-rows": {RUN: "The average was not tested, because the labelled stream had no new window, or another one waited for its verdict."},
    },
    "Streams, PTKs and versions": {
        "not-prepared": {NOTICE: "The rows of a window could not be put into parts, so that the window is given up and nothing was spent. An administrator can [have it tried again](../guide/operate.md#a-window-that-was-not-prepared): `ptk stream prepare`."},
        "ptk-rejected": {NOTICE: "The stream refused the PTK: it had no room, or the stream wants more assurance."},
        "deregistered": {NOTICE: "The PTK was deregistered. Its versions stay in the lake."},
        "register-again": {NOTICE: "`ptk ledger recover` found versions of a PTK that is not registered. Apply its declaration again."},
        "ledger-recovered": {NOTICE: "`ptk ledger recover` rebuilt the ledger of the stream from the key store. Blocks whose spends it may have forgotten [are retired](../guide/backup.md)."},
        "policy-differs": {NOTICE: "`ptk ledger recover` left the stream as it is: its journal has another policy than the key store. Put the policy back, then recover again."},
        "online-rows-lost": {NOTICE: "The online store [lost the rows](../guide/operate.md#lost-online-rows) of the newest version. A worker writes them again."},
        "previous-state-unreadable": {NOTICE: "The state of the version before is damaged or gone. This version does not continue it."},
    },
    "Deliveries": {
        "dead-letter": {NOTICE: "A version was not delivered after the last attempt. `ptk deliveries` says why, and `ptk redeliver` sends it again."},
        "subscription-disabled": {NOTICE: "The endpoint answered 410, or failed for ten days. Nothing is sent to it until `ptk enable`."},
    },
    "Dead letters": {
        "connection-failed": {LETTER: "There was no connection: nobody listens, the name is not found, or it leads where policy forbids. The relay's log has the cause."},
        "status-4xx": {LETTER: "The endpoint answered with a status from 400 to 499."},
        "status-5xx": {LETTER: "The endpoint answered with a status from 500 to 599."},
        "redirect": {LETTER: "The endpoint answered with a redirect, which is not followed. Subscribe the address that it leads to."},
        "gone": {LETTER: "The endpoint answered 410: it wants no message ever again. The subscription is disabled."},
        "bad-endpoint": {LETTER: "The URL cannot be used. Subscribe a valid one."},
        "not-allowed": {LETTER: "The subscriber's team has no role on the stream any more. Nothing was sent."},
        "no-secret": {LETTER: "The signing secret is lost. Subscribe again."},
        "stream-unavailable": {LETTER: "Redis does not answer."},
        "stream-refused": {LETTER: "Redis is out of memory, or the key of the stream is no stream."},
    },
}  # fmt: skip
"""What each code means wherever it comes up, in Markdown. A code has one section, in the first group that it belongs to."""

_LINK = re.compile(r"\[([^]]+)\]\([^)]*\)")


def sentence_of(code: str, *uses: str) -> str | None:
    """Return what a code says, as plain text, in the first of these uses that it has; None of an unknown code.

    Parameters
    ----------
    uses : str
        `JOB`, `RUN`, `NOTICE` or `LETTER`.
    """
    meanings = next((group[code] for group in GROUPS.values() if code in group), {})
    found = next((meanings[use] for use in uses if use in meanings), None)
    return None if found is None else _LINK.sub(r"\1", found).replace("`", "")


def sentences_of(codes: Iterable[str | None], *uses: str) -> dict[str, str]:
    """Return what these codes say, each once and in their order; those that are known."""
    found = {code: sentence_of(code, *uses) for code in codes if code}
    return {code: sentence for code, sentence in found.items() if sentence is not None}

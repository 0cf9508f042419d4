"""What the fixed codes of trainings and notices say: a sentence for each, and the page that explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    """What a code says; `page` says more. Without one it is the section of the code in the list of all codes."""

    sentence: str
    page: str = ""


_SANDBOX: Final = "docs/guide/team-code.md#the-sandbox"
_TESTED: Final = "docs/guide/validated-versions.md"
_OF_SERVICE: Final = "Something of the service or its machine went wrong"

CAUSES: Final = {
    "budget-denied": Cause("The blocks had no room for its loss. Nothing was spent."),
    "expired": Cause("Its window expired first."),
    "withdrawn": Cause("The PTK was deregistered, or changed, before it began."),
    "changed-after-its-reservation": Cause("The PTK changed after its loss was reserved."),
    "recovered": Cause("A recovery of the ledger (ptk ledger recover) ended it."),
    "timeout": Cause("It took longer than PTK_TRAIN_TIMEOUT_SECONDS allows."),
    "memory-limit": Cause("It took more memory than PTK_TRAIN_MEMORY_MIB allows."),
    "team-code-failed": Cause("The team's code failed, in whatever way.", _SANDBOX),
    "undeclared-value": Cause(
        "The team's code released a key or a text that it had not declared.",
        "docs/guide/team-code.md#declared-values",
    ),
    "no-sandbox": Cause("The sandbox of team code did not work when it was needed.", _SANDBOX),
    "staging-failed": Cause("The raw zone did not take its result, as on a disk that is full."),
    "killed": Cause(f"{_OF_SERVICE}: its process was killed."),
    "trainer-error": Cause(f"{_OF_SERVICE}: the estimator failed."),
    "bad-output": Cause(f"{_OF_SERVICE}: its result was not what was declared."),
    "rows-gone": Cause(f"{_OF_SERVICE}: rows of its window were gone."),
    "rows-corrupt": Cause(f"{_OF_SERVICE}: rows of its window were damaged."),
    "failed": Cause(f"{_OF_SERVICE}. The worker's log has more."),
    "refused": Cause("The ledger refused its loss. Nothing was spent."),
    "not-prepared": Cause("The rows of its window could not be put into parts. Nothing was spent."),
    "previous-state-unreadable": Cause(
        "The state of the version before could not be read, so that this one does not continue it."
    ),
    "waits-for-verdict": Cause("Its state waits for the verdict of its test.", _TESTED),
    "validation-retry": Cause("Its state did not pass its test.", _TESTED),
    "validation-timeout": Cause(
        "No state was accepted within the timeout of its test. The PTK is trained no longer.", _TESTED
    ),
    "validation-reject": Cause(
        "No model of its class meets its target. The PTK is trained no longer.", f"{_TESTED}#reject"
    ),
    "validation-confidence-used-up": Cause(
        "No further look could accept anything. The PTK is trained no longer.", _TESTED
    ),
    "validation-denied": Cause("There was no verdict: the test blocks had no room for its loss.", _TESTED),
    "candidate-unreadable": Cause("There was no verdict: the draft of its state could not be read.", _TESTED),
    "more-than-it-may-have": Cause(
        "It may not have a look with more loss or more windows. It is not trained until it changes.",
        "docs/guide/scheduling.md#see-who-waits",
    ),
    "passed-over": Cause(
        "It has waited for long, and others are served first.",
        "docs/guide/scheduling.md#who-is-served-first",
    ),
    "no-test-rows": Cause(
        "The labelled stream keeps no window to test its state on.",
        "docs/guide/device-streams.md#only-versions-that-are-good-enough",
    ),
    "no-new-test-rows": Cause(
        "Its average was not tested: each window of the labelled stream tests one.",
        "docs/guide/device-streams.md#only-versions-that-are-good-enough",
    ),
    "instances-unavailable": Cause(
        "The server of instances did not answer. Workers try again until it does."
    ),
    "instances-lost": Cause("The instances of the model were lost. Devices have begun anew."),
    "average-moved-too-far": Cause(
        "Reports moved the average further than honest ones do. Devices begin anew around the last version.",
        "docs/guide/device-streams.md#an-average-that-moved-too-far",
    ),
    "dead-letter": Cause("A version was not delivered after the last attempt. It can be sent again."),
    "subscription-disabled": Cause(
        "Its endpoint failed for ten days or wants no message. Versions wait until it is enabled."
    ),
    "online-rows-lost": Cause(
        "The online store lost the rows of the newest version. A worker writes them again."
    ),
    "deregistered": Cause("The PTK was deregistered. Its versions stay in the lake."),
    "register-again": Cause(
        "A recovery found versions of a PTK that is not registered. Apply its declaration again."
    ),
    "ledger-recovered": Cause(
        "A recovery of the ledger retired the blocks whose spends may have been forgotten."
    ),
    "policy-differs": Cause(
        "The journal of the stream has another policy than the key store. Nothing of it is opened."
    ),
    "ptk-rejected": Cause("The stream refused the PTK: it had no room, or wants more assurance."),
}
"""By the code that a training is listed with; a code of a newer program is not among them."""

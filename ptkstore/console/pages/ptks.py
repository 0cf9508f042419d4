"""The page of one PTK: what it says, how good it is, how it came to be, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.graphs import Graph
from ptkstore.console.pages.diffs import shown_diff, too_large
from ptkstore.console.pages.lineage_graphs import lineage_graph
from ptkstore.console.pages.origins import origins_of
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed
from ptkstore.console.pages.snippets import snippets_of
from ptkstore.console.pages.states import TEXT_MOST, shown_table, table_ask
from ptkstore.console.pages.version_lines import version_line
from ptkstore.console.value_charts import Value, ValueChart, value_chart
from ptkstore.domain.codes import JOB, NOTICE, RUN, sentence_of
from ptkstore.domain.guarantee_sentences import guarantee_sentence
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.views import columns_of, views_of
from ptkstore.domain.versions.provenance import provenance_in
from ptkstore.domain.versions.state_windows import spans_in, spans_in_words
from ptkstore.errors import CorruptObject, Unavailable, UnknownName
from ptkstore.sdk.documents.evaluations import evaluation_row
from ptkstore.sdk.documents.resources import ptk_document, version_document
from ptkstore.sdk.documents.times import age_in_words
from ptkstore.sdk.documents.validations import validation_row, waiting_text
from ptkstore.sdk.notices import training_document
from ptkstore.sdk.service import Published

VERSIONS_SHOWN = 50
VERDICTS_SHOWN = 50
TRAININGS_SHOWN = 50
ERRORS_PLOTTED = 48
NUMBER_MOST = 10


class PtkPage(Reads):
    """The contents of one PTK, and its history."""

    def ptk(
        self,
        who: Principal,
        ptk_id: str,
        asked: Mapping[str, Sequence[str]] | None = None,
        *,
        sent: bool = False,
    ) -> dict[str, Any]:
        """Show a PTK, a version of it, versions and verdicts, and for its team what became of its newest trainings.

        Parameters
        ----------
        asked : Mapping, optional
            The version, and the rows of its table.
        sent : bool
            Whether a form was sent: what it searches for is searched for, while an address is none to put it into.
        """
        self._identity.permit(who, Action.PTK_READ, Named(ptk_id=formed("PTK", ptk_id)))
        asked, spec = asked or {}, self._service.ptk(ptk_id)
        in_address = bool(asked.get("find")) and not sent
        asked = {name: values for name, values in asked.items() if name != "find" or sent}
        versions, made, estimates, verdicts, shown = None, None, {}, [], dict[str, Any]()
        line = None
        may = self._identity.allowed(who, {Action.STATE_READ, Action.TRAINING_LIST}, Named(ptk_id=ptk_id))
        if Action.STATE_READ in may:
            before = max(0, self._service.newest_version(ptk_id) - VERSIONS_SHOWN)
            latest = self._service.versions(ptk_id, after=before, limit=VERSIONS_SHOWN)
            made = latest[-1].content if latest else None
            line = version_line([one.content for one in latest])
            versions = [version_document(one) for one in reversed(latest)]
            estimates = {
                row["version"]: row
                for row in map(evaluation_row, self._service.evaluations(ptk_id, after=before))
            }
            judged = self._service.validations(ptk_id, newest=VERDICTS_SHOWN)
            verdicts = [validation_row(one) for one in reversed(judged)]
            shown = self._shown_version(who, spec, latest, asked)
        trainings = None
        if Action.TRAINING_LIST in may:
            newest = self._service.trainings(ptk_id, limit=TRAININGS_SHOWN, newest=True)
            trainings = [
                {**training_document(one), "cause": sentence_of(one.code or "", RUN, NOTICE, JOB)}
                for one in newest
            ]
        policy, now = self._service.stream(spec.stream).policy, self._service.clock.now()
        return {
            "ptk": ptk_document(spec),
            "versions": versions,
            "line": line,
            "estimates": estimates,
            "errors": _errors(verdicts, estimates, spec),
            "verdicts": verdicts,
            "waits": waiting_text(spec.waiting, made),
            "trainings": trainings,
            "graph": self._graph(who, spec, made, shown),
            "views": {view: columns_of(spec, table) for view, table in views_of(spec).items()},
            "snippets": snippets_of(spec),
            "in_address": in_address,
            "find": next(iter(asked.get("find", ())), "").strip()[:TEXT_MOST],
            "sentence": guarantee_sentence(spec, policy.privacy_unit.value),
            "age": "" if made is None else age_in_words(datetime.fromisoformat(made["published_at"]), now),
            "rows_in": "" if made is None else spans_in_words(spans_in(made, policy)),
            **{"state": None, "problem": "", "shown_version": None, "origins": None, "made": None, **shown},
        }

    def searched(self, who: Principal, ptk_id: str, form: Mapping[str, str]) -> dict[str, Any]:
        """Show a PTK with the rows that a form asks for: what is searched for is in no address."""
        return self.ptk(who, ptk_id, {name: [value] for name, value in form.items()}, sent=True)

    def diff(self, who: Principal, ptk_id: str, asked: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Show what differs between two versions of a PTK."""
        self._identity.permit(who, Action.STATE_READ, Named(ptk_id=formed("PTK", ptk_id)))
        newest = self._service.newest_version(ptk_id)
        other = min(_number(asked, "other") or newest, newest)
        one = _number(asked, "one") or max(other - 1, 1)
        shown = {
            "ptk_id": ptk_id,
            "newest": newest,
            "one": one,
            "other": other,
            "diff": None,
            "problem": "",
        }
        if not 1 <= one < other:
            return {**shown, "problem": "Choose two different versions, the older one first."}
        diff = self._service.small_diff(ptk_id, one, other)
        if diff is None:
            return {**shown, "problem": too_large(ptk_id, one, other)}
        return {**shown, "diff": shown_diff(diff)}

    def _graph(
        self, who: Principal, spec: PtkSpec, newest: Mapping[str, Any] | None, shown: Mapping[str, Any]
    ) -> Graph:
        """Where the PTK comes from and where it goes, as far as the reader may see it."""
        subscriptions = self._subscriptions(who, spec.ptk_id)

        def may(kind: str, name: str) -> bool:
            if kind == "stream":
                return self._may(who, Action.STREAM_READ, Named(stream=name))
            return self._may(who, Action.STATE_READ, Named(ptk_id=name))

        return lineage_graph(
            spec,
            columns=_columns_read(spec),
            newest=newest,
            origins=shown.get("origins"),
            shown=shown.get("shown_version"),
            subscriptions=subscriptions,
            may=may,
        )

    def _shown_version(
        self, who: Principal, spec: PtkSpec, latest: Sequence[Published], asked: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """The version that is asked for, or the newest: its table, where it comes from, what it promises."""
        if not latest:
            return {}
        number = _number(asked, "version") or latest[-1].number
        found = {one.number: one for one in latest}.get(number)
        if found is None:
            return {"problem": f"Version {number} is none of the newest {len(latest)} versions."}
        origins = origins_of(spec.ptk_id, found.content, lambda *one: self._manifest(who, *one))
        shown = {
            "shown_version": number,
            "origins": origins,
            "made": provenance_in(found.content, spec.ptk_id).sentence(
                spans_in_words(spans_in(found.content, self._service.stream(spec.stream).policy))
            ),
        }
        try:
            table = self._service.state_table(spec.ptk_id, number, table_ask(asked))
        except (CorruptObject, Unavailable):
            return {**shown, "problem": "The lake does not answer, or does not hold what was published."}
        if table is None:
            problem = "The state is too large for a page: use the SDK." if found.content["files"] else ""
            return {**shown, "problem": problem}
        return {**shown, "state": shown_table(table, next(iter(asked.get("plot", ())), ""))}

    def _manifest(self, who: Principal, ptk_id: str, number: int) -> Mapping[str, Any]:
        """The manifest of a version that went into another one, as far as the reader may read it."""
        if not self._may(who, Action.STATE_READ, Named(ptk_id=ptk_id)):
            raise UnknownName("version", f"{ptk_id} v{number}")
        return self._service.version(ptk_id, number).content


def _columns_read(spec: PtkSpec) -> list[str]:
    """The columns of its stream that a PTK reads; none where only its team's code knows them."""
    from ptklib.exceptions import PtklibError
    from ptklib.spec import estimator_from_spec

    try:
        return list(dict.fromkeys(estimator_from_spec(spec.estimator).input_columns()))
    except PtklibError:
        return []


def _errors(
    verdicts: Sequence[Mapping[str, Any]], estimates: Mapping[int, Mapping[str, Any]], spec: PtkSpec
) -> dict[str, Any] | None:
    """The error by verdict against its target; without verdicts the estimated loss by version."""
    values, about, target = [], "", None
    judged = [one for one in reversed(verdicts) if one.get("estimate") is not None][-ERRORS_PLOTTED:]
    if judged:
        metric, target = judged[-1]["metric"], float(judged[-1]["target"])
        about = f"{metric} of each verdict; the bar ends at the bound that is compared with the target"
        for one in (row for row in judged if row["metric"] == metric):
            text = (
                f"window {one['window']}, {one['decision']}: {one['estimate']:.4g}, bound {one['bound']:.4g}"
            )
            low, high = sorted((float(one["estimate"]), float(one["bound"])))
            values.append(Value(f"window {one['window']}", float(one["estimate"]), low, high, text))
    else:
        about = "estimated loss of each version, with one standard error"
        for number, row in sorted(estimates.items())[-ERRORS_PLOTTED:]:
            if row["loss"] is not None:
                text = f"version {number}: {row['loss']:.4g} ± {row['standard_error']:.4g}"
                low, high = row["loss"] - row["standard_error"], row["loss"] + row["standard_error"]
                values.append(Value(f"version {number}", row["loss"], low, high, text))
    chart: ValueChart | None = value_chart(values, target)
    return None if chart is None else {"chart": chart, "about": about, "target": target, "ptk": spec.ptk_id}


def _number(asked: Mapping[str, Sequence[str]], name: str) -> int:
    """A number of a version in a query; 0 for what is none."""
    text = next(iter(asked.get(name, ())), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= NUMBER_MOST else 0

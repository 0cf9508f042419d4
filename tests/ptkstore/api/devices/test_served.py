"""What a process goes on serving when a model cannot be read anew."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ptklib.draw_discard.instances import RecentRanges
from ptkstore.api.devices import served as served_module
from ptkstore.api.devices.served import ServedModels
from ptkstore.application.devices.served_models import ServedModel
from ptkstore.errors import PtkStoreError, Refused, Unavailable, UnknownName

PTK, EPOCH = "team.model", "e"
MODEL = ServedModel(PTK, "phones", EPOCH, 5, 4, "d", b"{}", RecentRanges(1), 0)


@pytest.mark.parametrize(
    ("error", "raised", "goes_on"),
    [
        (Unavailable("away"), Unavailable, True),
        (Refused("its appendonly is 'yes'"), Unavailable, False),
        (UnknownName("PTK", PTK), UnknownName, False),
    ],
)
def test_a_model_goes_on_being_served_only_where_nobody_can_tell(
    error: PtkStoreError, raised: type[PtkStoreError], goes_on: bool
) -> None:
    answers: list[ServedModel | PtkStoreError] = [MODEL]

    def read(_: str, before: ServedModel | None) -> ServedModel:
        if isinstance(answers[-1], PtkStoreError):
            raise answers[-1]
        return answers[-1]

    async def served() -> None:
        models = ServedModels(read)
        assert await models.get(PTK, EPOCH) is MODEL
        answers.append(error)
        with pytest.raises(raised) as caught:  # as every second
            await models.get(PTK, "another")
        assert "appendonly" not in str(caught.value)
        if goes_on:
            assert await models.get(PTK, EPOCH) is MODEL
        else:
            with pytest.raises(raised):
                await models.get(PTK, EPOCH)
        models.close()

    asyncio.run(served())


@pytest.mark.parametrize(
    ("ends", "kept"),
    [
        ([Unavailable("away")], True),
        ([Unavailable("away"), Unavailable("away")], True),
        ([Refused("its appendonly is 'yes'")], True),
        ([UnknownName("PTK", PTK)], False),
    ],
)
def test_what_was_served_before_is_kept_while_devices_train_it(
    ends: list[PtkStoreError], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranges are 60 times an array of all weights, and late reports need them."""
    monkeypatch.setattr(served_module, "KEPT_SECONDS", 0.0)
    later = replace(MODEL, epoch="later")
    answers: list[ServedModel | PtkStoreError] = [MODEL, *ends, later]
    seen: list[ServedModel | None] = []

    def read(_: str, before: ServedModel | None) -> ServedModel:
        seen.append(before)
        answer = answers.pop(0)
        if isinstance(answer, PtkStoreError):
            raise answer
        return answer

    async def served() -> None:
        models = ServedModels(read)
        await models.get(PTK, EPOCH)
        for _ in ends:
            with pytest.raises(PtkStoreError):
                await models.get(PTK, "later")
            assert models.epoch_of(PTK) is None
        assert (models._kept == {}) is not kept
        assert await models.get(PTK, "later") is later
        models.close()

    asyncio.run(served())
    assert seen == [None, *[MODEL] * len(ends), MODEL if kept else None]


def test_what_nobody_asks_for_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_module, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(served_module, "UNUSED_SECONDS", -1.0)

    async def served() -> None:
        models = ServedModels(lambda _, before: MODEL)
        await models.get(PTK, EPOCH)
        while models._kept:
            await asyncio.sleep(0)
        models.close()

    asyncio.run(asyncio.wait_for(served(), 60))

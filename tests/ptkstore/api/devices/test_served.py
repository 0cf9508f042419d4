"""What a process goes on serving when a model cannot be read anew."""

from __future__ import annotations

import asyncio

import pytest

from ptklib.draw_discard.instances import RecentRanges
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

    def read(_: str) -> ServedModel:
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

"""A transformation of Feast that travels as text, without the pickle that Feast puts beside it."""

from __future__ import annotations

from typing import Any

import pandas as pd
from feast.protos.feast.core.Transformation_pb2 import UserDefinedFunctionV2
from feast.transformation.pandas_transformation import PandasTransformation

from ptkstore.errors import InvariantBroken


class TextTransformation(PandasTransformation):
    """Written by the service, read by Feast as its own: readers run `udf_string` and unpickle nothing."""

    function: str

    @classmethod
    def of(cls, text: str, function: str) -> TextTransformation:
        """Of a text of ours that defines a function."""
        made = cls(udf=_never_run, udf_string=text)
        made.function = function
        return made

    def to_proto(self) -> Any:
        """Name, mode and text; an empty pickle."""
        return UserDefinedFunctionV2(name=self.function, body=b"", body_text=self.udf_string, mode="pandas")


def _never_run(inputs: pd.DataFrame) -> pd.DataFrame:
    """The publisher runs nothing; readers run the text."""
    raise InvariantBroken("the text of a view is run by readers, never here")

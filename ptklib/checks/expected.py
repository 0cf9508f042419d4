"""The checks of scikit-learn that an estimator of this library is expected to fail, and why."""

from typing import Any

RANDOM = "the output is random"
"""Reasons that begin so excuse a check that may also pass, by chance."""

_RANDOM = f"{RANDOM}: two fits of the same rows differ, by design"
_DECLARED = "columns are found by their declared names, whatever else X holds"
_TOO_FEW = "the check makes arrays with fewer columns than are declared"

_ALWAYS = {
    "check_fit_idempotent": _RANDOM,
    "check_n_features_in_after_fitting": _DECLARED,
    "check_fit2d_1feature": _DECLARED + ": the error names the missing one",
    "check_estimators_empty_data_messages": "an empty table is trained on like any other: a refusal would tell",
}

_TWO_COLUMNS = (
    "check_estimators_overwrite_params",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_requires_y_none",
)

_THREE_COLUMNS = (
    "check_fit_score_takes_y",
    "check_dont_overwrite_parameters",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
    "check_dict_unchanged",
    "check_fit2d_predict1d",
)

_CLUSTERERS = {
    "check_clustering": "labels_ of the training rows would be exact functions of them, so they are not kept",
}

_REGRESSORS = {
    "check_regressors_train": f"{RANDOM}: few rows are mostly noise, and the score asked for is mostly out of reach",
    "check_regressor_data_not_an_array": _RANDOM,
    "check_regressors_int": _RANDOM,
    "check_supervised_y_no_nan": "a row with a missing or infinite label is dropped: an error would tell of it",
    "check_supervised_y_2d": "y may be a column; it is read without a warning",
}


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the names of scikit-learn's checks that `estimator` should fail, each with its reason."""
    expected = dict(_ALWAYS)
    n_columns = len(estimator.required_columns())
    if n_columns == 1:
        del expected["check_fit2d_1feature"]
    if n_columns > 2:
        expected |= dict.fromkeys(_TWO_COLUMNS, _TOO_FEW)
    if n_columns > 3:
        expected |= dict.fromkeys(_THREE_COLUMNS, _TOO_FEW)
    kind = estimator.__sklearn_tags__().estimator_type
    return expected | {"clusterer": _CLUSTERERS, "regressor": _REGRESSORS}.get(kind, {})

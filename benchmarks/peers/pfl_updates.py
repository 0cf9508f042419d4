"""Runs in the environment of pfl-research: cohorts of users that take one noisy step of a logistic model on one row."""

import json
import sys
import time
from itertools import cycle

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.privacy.laplace_mechanism import LaplaceMechanism
from pfl.stats import MappedVectorStatistics

arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
X, y, rate = arrays["X"], arrays["y"], parameters["learning_rate"]
starts: list[float] = []


class Logistic(Model):
    def __init__(self) -> None:
        self.weights = np.zeros(X.shape[1])

    def apply_model_update(self, statistics):
        statistics.average()
        self.weights = self.weights - statistics["step"]
        return self, Metrics()


class OneStep(FederatedAlgorithm):
    def get_next_central_contexts(
        self, model, iteration, algorithm_params, model_train_params, model_eval_params=None
    ):
        starts.append(time.process_time())  # of a cohort; the first one does not count
        if iteration == parameters["cohorts"]:
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=parameters["users"],
            population=Population.TRAIN,
            algorithm_params=algorithm_params,
            model_train_params=model_train_params,
            model_eval_params=model_eval_params,
            seed=self._get_seed(),
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model, user_dataset, central_context):
        (row,), (label,) = user_dataset.raw_data
        gradient = (1 / (1 + np.exp(-row @ model.weights)) - label) * row
        return MappedVectorStatistics({"step": rate * gradient}), Metrics()

    def process_aggregated_statistics(self, central_context, aggregate_metrics, model, statistics):
        return model.apply_model_update(statistics)


users = cycle(range(len(X)))
data = FederatedDataset(lambda n: Dataset((X[n : n + 1], y[n : n + 1]), user_id=str(n)), users.__next__)
noise = LaplaceMechanism(clipping_bound=rate, epsilon=rate / parameters["scale"])
backend = SimulatedBackend(data, data, postprocessors=[noise])
OneStep().run(AlgorithmHyperParams(), backend, Logistic(), ModelHyperParams(), send_metrics_to_platform=False)
taken = np.median(np.diff(starts[1:]))
print(json.dumps({"updates_per_second": parameters["users"] / taken}))

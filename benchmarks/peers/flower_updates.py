"""Runs in the environment of Flower: rounds of clients that take one noisy step of a logistic model on one row each."""

import json
import os
import sys
import time

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
X, y = arrays["X"], arrays["y"]
client, server, found = ClientApp(), ServerApp(), {}


@client.train()
def step(message: Message, context: Context) -> Message:
    (weights,) = message.content["weights"].to_numpy_ndarrays()
    row = int(message.content["row"]["row"])
    gradient = (1 / (1 + np.exp(-X[row] @ weights)) - y[row]) * X[row]
    gradient /= max(np.abs(gradient).sum(), 1.0)
    noise = np.random.default_rng().laplace(scale=parameters["scale"], size=len(weights))
    report = weights - parameters["learning_rate"] * gradient + noise
    return Message(RecordDict({"weights": ArrayRecord([report])}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    weights = np.zeros(X.shape[1])
    nodes = []
    while len(nodes) < parameters["clients"]:
        nodes = list(grid.get_node_ids())
        time.sleep(0.1)
    n = 0
    for round_ in range(parameters["rounds"] + 1):
        if round_ == 1:
            n, start = 0, time.perf_counter()
        messages = [
            Message(
                RecordDict(
                    {"weights": ArrayRecord([weights]), "row": ConfigRecord({"row": int((n + i) % len(X))})}
                ),
                dst_node_id=node,
                message_type="train",
            )
            for i, node in enumerate(nodes)
        ]
        replies = [r for r in grid.send_and_receive(messages) if r.has_content()]
        weights = np.mean([r.content["weights"].to_numpy_ndarrays()[0] for r in replies], axis=0)
        n += len(replies)
    found["updates_per_second"] = n / (time.perf_counter() - start)


run_simulation(
    server,
    client,
    parameters["clients"],
    backend_config={
        "client_resources": {"num_cpus": 1},
        "init_args": {"num_cpus": 1, "include_dashboard": False},
    },
)
print(json.dumps(found))

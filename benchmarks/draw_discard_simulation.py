"""Simulated devices: updates per second of one core, with exact noise and the exact order of draws and puts."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.measuring import Row, measured, seconds
from benchmarks.peers import ask_peer
from ptklib.draw_discard import Categorical, Devices, Numeric, Simulation, Specification

LN32 = 3.4657
RUNS = 7
PIXELS, CLASSES = 784, 10
WEIGHTS, CLIENTS, ROUNDS = 33, 20, 20
USERS, COHORTS = 1_000, 6
PEERS = Path(__file__).parent / "peers"


def rows() -> list[Row]:
    return [_digits(), _small(), _beside_flower(), _beside_pfl()]


def _digits() -> Row:
    """Softmax of 784 pixels and ten classes, ten rows each, as in section V-A of the paper."""
    specification = Specification(
        features=[Numeric(f"p{i:03}", 0, 255) for i in range(PIXELS - 1)],
        label=Categorical("digit", list(range(CLASSES))),
        link="softmax",
        epsilon=LN32,
    )
    random = np.random.default_rng(0)
    n_devices, n_rows = 600, 10
    n = n_devices * n_rows
    columns = random.integers(0, 2**15 + 1, (n, PIXELS - 1))
    columns[random.random(columns.shape) < 0.8] = 0  # pixels are mostly white
    owners = np.repeat(np.arange(n_devices), n_rows)
    devices = Devices.encoded(specification, columns, random.integers(0, CLASSES, n), owners)
    return _row("digits", f"{n_rows} rows a device", devices, n_devices, 2_000)


def _small() -> Row:
    """A logistic model of 33 weights, one row each, the size of that in section V-C of the paper."""
    specification = Specification(
        features=[
            Categorical("hour", list(range(24))),
            Numeric("age", 0, 100),
            *(Numeric(f"x{i}", 0, 1) for i in range(7)),
        ],
        label=Numeric("clicked", 0, 1),
        epsilon=LN32,
    )
    random = np.random.default_rng(0)
    n = 20_000
    columns = np.column_stack([random.integers(0, 24, n), random.integers(0, 2**15 + 1, (n, 8))])
    labels = random.integers(0, 2, n) << 20
    devices = Devices.encoded(specification, columns, labels, np.arange(n))
    return _row("small", "1 row a device", devices, n, 20_000)


def _beside_flower() -> Row:
    """By the clock, with one core for the clients of Flower; its server has the other one."""
    return _beside(
        "flower",
        f"Flower 1.42.0, {CLIENTS} clients a round, noise of numpy",
        time.perf_counter,
        clients=CLIENTS,
        rounds=ROUNDS,
    )


def _beside_pfl() -> Row:
    return _beside(
        "pfl",
        f"pfl-research 0.6.0, {USERS:,} users a cohort, noise of numpy",
        time.process_time,
        users=USERS,
        cohorts=COHORTS,
    )


def _beside(peer: str, against: str, clock: Callable[[], float], **parameters: int) -> Row:
    """The same model with one row a device, ours and in the simulation of a peer."""
    random = np.random.default_rng(0)
    n = 20_000
    inputs, labels = random.uniform(size=(n, WEIGHTS - 1)), random.integers(0, 2, n)
    names = [f"x{i:02}" for i in range(WEIGHTS - 1)]
    specification = Specification(
        features=[Numeric(name, 0, 1) for name in names], label=Numeric("y", 0, 1), epsilon=LN32
    )
    devices = Devices.of(specification, dict(zip(names, inputs.T, strict=True)) | {"y": labels})
    simulation, order = Simulation(devices), np.arange(n)
    simulation.run(order[:50])
    ours = n / median(seconds(lambda: simulation.run(order), clock) for _ in range(RUNS))
    theirs = ask_peer(
        peer,
        PEERS / f"{peer}_updates.py",
        {"X": np.column_stack([np.ones(n), inputs]), "y": labels},
        scale=specification.noise_scale / 2**specification.grid_bits,
        learning_rate=specification.learning_rate,
        **parameters,
    )["updates_per_second"]
    return measured(
        f"simulation-beside-{peer}",
        f"simulated updates of {WEIGHTS} weights, 1 row a device; judged: how many times as many",
        unit="updates per second" + " of CPU time" * (clock is time.process_time),
        ours=ours,
        against=against,
        theirs=theirs,
        judged=ours / theirs,
        goal=1,
        direction="max",
    )


def _row(name: str, of: str, devices: Devices, n_devices: int, goal: int) -> Row:
    n_weights = devices.specification.n_weights
    simulation = Simulation(devices)
    order = np.arange(n_devices)
    simulation.run(order[:50])
    taken = [seconds(lambda: simulation.run(order), time.process_time) for _ in range(RUNS)]
    return measured(
        f"simulation-{name}",
        f"simulated updates of {n_weights:,} weights, {of}, k = {devices.specification.k}, exact Laplace noise",
        unit="updates per second of CPU time",
        ours=n_devices / median(taken),
        goal=goal,
        direction="max",
    )

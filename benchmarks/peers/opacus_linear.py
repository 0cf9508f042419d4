"""Runs in the environment of Opacus: logistic regression of some arrays by DP-SGD, in one process on one thread."""

import json
import sys
import time
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
warnings.simplefilter("ignore")
torch.set_num_threads(1)
features = torch.tensor(arrays["X"], dtype=torch.float32)
labels = torch.tensor(arrays["y"], dtype=torch.float32)[:, None]
data = TensorDataset(features, labels)
model = torch.nn.Linear(features.shape[1], 1)
torch.nn.init.zeros_(model.weight)
torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=parameters["learning_rate"])
loader = DataLoader(data, batch_size=parameters["batch_size"])
model, optimizer, loader = PrivacyEngine(accountant="rdp").make_private(
    module=model,
    optimizer=optimizer,
    data_loader=loader,
    noise_multiplier=parameters["noise_multiplier"],
    max_grad_norm=parameters["clip_norm"],
)
loss_of = torch.nn.BCEWithLogitsLoss()
n_rows, start, cpu = 0, time.perf_counter(), time.process_time()
for _ in range(parameters["epochs"]):
    for batch, wanted in loader:
        optimizer.zero_grad()
        loss_of(model(batch), wanted).backward()
        optimizer.step()
        n_rows += len(batch)
seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
with torch.no_grad():
    correct = ((model(features) > 0).float() == labels).float().mean()
print(
    json.dumps(
        {
            "rows_per_second": n_rows / seconds,
            "rows_per_cpu_second": n_rows / cpu_seconds,
            "accuracy": float(correct),
        }
    )
)

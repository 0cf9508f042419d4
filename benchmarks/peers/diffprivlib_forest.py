"""diffprivlib's RandomForestClassifier, run in its own environment: arrays in, seconds and probabilities out."""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import RandomForestClassifier

warnings.simplefilter("ignore")
arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
bounds = (arrays["low"], arrays["high"])
found = []
for trees, depth in parameters["shapes"]:
    start = time.process_time()
    model = RandomForestClassifier(
        trees, epsilon=parameters["epsilon"], bounds=bounds, classes=[0, 1], max_depth=depth, n_jobs=1
    ).fit(arrays["X"], arrays["y"])
    seconds = time.process_time() - start
    chance = model.predict_proba(arrays["test"])[:, 1]
    found.append({"shape": [trees, depth], "seconds": seconds, "chance": np.round(chance, 9).tolist()})
print(json.dumps(found))

"""diffprivlib's RandomForestClassifier with its defaults, at several epsilons: arrays in, probabilities out."""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import RandomForestClassifier

warnings.simplefilter("ignore")
arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
found = []
for epsilon in parameters["epsilons"]:
    model = RandomForestClassifier(
        epsilon=epsilon,
        bounds=(arrays["low"], arrays["high"]),
        classes=np.unique(arrays["y"]).tolist(),
        n_jobs=1,
    ).fit(arrays["X"], arrays["y"])
    found.append(model.predict_proba(arrays["test"]).tolist())
print(json.dumps(found))

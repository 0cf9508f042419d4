"""diffprivlib's KMeans, run in its own environment: arrays and parameters in, seconds and centres out."""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import KMeans

warnings.simplefilter("ignore")
arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
rows, low, high = arrays["rows"], arrays["low"], arrays["high"]
seconds, centres = [], []
for _ in range(parameters["fits"]):
    start = time.perf_counter()
    fitted = KMeans(parameters["k"], epsilon=parameters["epsilon"], bounds=(low, high)).fit(rows)
    seconds.append(time.perf_counter() - start)
    centres.append(fitted.cluster_centers_.tolist())
print(json.dumps({"seconds": seconds, "centres": centres}))

"""hpfrec, hierarchical Poisson factorization without privacy, in its own environment: seconds and factors out."""

import json
import sys
import time

import numpy as np
import pandas as pd
from hpfrec import HPF

arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
events = pd.DataFrame({"UserId": arrays["users"], "ItemId": arrays["items"], "Count": 1})
start = time.perf_counter()
model = HPF(k=parameters["k"], reindex=False, verbose=False, random_seed=1).fit(events)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "users": model.Theta.tolist(), "items": model.Beta.tolist()}))

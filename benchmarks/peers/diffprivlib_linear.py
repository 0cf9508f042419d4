"""Runs in the environment of diffprivlib: linear regression of some arrays."""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import LinearRegression

arrays, parameters = np.load(sys.argv[1]), json.loads(sys.argv[2])
warnings.simplefilter("ignore")
bound = parameters["bound"]
model = LinearRegression(epsilon=parameters["epsilon"], bounds_X=(-bound, bound), bounds_y=(-bound, bound))
model.fit(arrays["X"], arrays["y"])
intercept = float(np.ravel(model.intercept_)[0])
print(json.dumps({"coefficients": np.ravel(model.coef_).tolist(), "intercept": intercept}))

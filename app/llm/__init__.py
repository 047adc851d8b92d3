"""The model endpoint that runs talk to: it holds the real key, and takes a run's short-lived token instead."""

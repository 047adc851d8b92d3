"""Talking to a language model: values, errors with their recovery, the client, and its offline stand-ins."""

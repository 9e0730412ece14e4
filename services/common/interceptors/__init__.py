"""The layers that every call passes on its way to a handler.

In order: context, telemetry, metrics, exceptions, identity, deadline, validation.
"""

"""One module a resource of the REST interface."""

from gateway.routes import attachments, console, events, health, sessions, turns

ROUTERS = (sessions.router, turns.router, events.router, attachments.router, health.router, console.router)
"""Every router, in the order of the documentation."""

"""What every request passes, one concern a module. `gateway.app` puts them in order."""

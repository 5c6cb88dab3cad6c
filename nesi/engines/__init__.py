"""The engines: how the equations are executed."""

"""The parts of a `Recorder`, one idea each; adapters and drivers use the recorder alone."""

"""The floor: what a frame costs by its shapes, and what this device can do."""

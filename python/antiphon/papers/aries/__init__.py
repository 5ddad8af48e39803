"""ARIES: Accelerating Distributed Training in Chiplet-based Systems via Flexible Interconnects (DATE 2024)."""

"""The designs of a space that no other beats: in time, energy and area."""

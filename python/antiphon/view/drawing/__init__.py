"""Drawings of fabrics: where nodes stand, how links run, what signs mean."""

from antiphon.view.drawing.drawing import Drawing, LinkShape, NodeShape, draw

__all__ = ["Drawing", "LinkShape", "NodeShape", "draw"]

"""maturin, after the types of the extension are written: what pip builds with."""

from maturin import *  # noqa: F403
from stubs import write

write()

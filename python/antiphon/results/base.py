"""What all results can do: tables, frames, files, notebooks."""

from __future__ import annotations

import os
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, ClassVar

from antiphon.errors import AntiphonError
from antiphon.files import written_whole
from antiphon.results.record import Record
from antiphon.results.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Self

    from antiphon._core import Fabric


def page_of(result: object, fabric: Fabric | None = None) -> str:
    """The page of a result, or of a study, as ``Result.page``."""
    from antiphon.view.pages import page_of as made  # the one way up: what shows results knows their kinds

    return made(result, fabric)


class Result(Record):
    """A result: what it says is in fields and properties, and all that has rows in ``tables``.

    >>> import antiphon
    >>> result = antiphon.advise_trees(16, "1MiB")
    >>> list(result.tables), result.table("ways").height
    (['ways'], 7)

    The first of the tables is what frames and readers of Arrow show of the result itself; a notebook shows what a
    terminal does.
    """

    headline: ClassVar[str] = ""
    """What ``repr`` says, a format of the result, ``{0}``."""
    row: ClassVar[str] = ""
    """Name of the first table, if that is one row: what ``to_dict`` has."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            if field.type == "Table" and not isinstance(
                getattr(self, field.name), Table
            ):  # but a dictionary of the core
                object.__setattr__(self, field.name, Table._of_core(getattr(self, field.name)))

    @property
    def tables(self) -> dict[str, Table]:
        """All tables by name."""
        own = {self.row: Table.of_rows([self.to_dict()])} if self.row else {}
        return own | {field.name: getattr(self, field.name) for field in fields(self) if field.type == "Table"}  # type: ignore[arg-type]

    def table(self, name: str | None = None) -> Table:
        """The table of this name; without one, the first.

        Raises:
            AntiphonError: ``unknown-name``, listing those there are.
        """
        tables = self.tables
        name = next(iter(tables)) if name is None else name
        if name not in tables:
            raise AntiphonError(f"no table '{name:.40}'; there are: {', '.join(tables)}", "unknown-name")
        return tables[name]

    def to_frame(self, table: str | None = None) -> pd.DataFrame:
        """A table as a pandas DataFrame (extra ``pandas``); without a name, the first.

        Raises:
            AntiphonError: ``missing-extra`` without pandas, ``unknown-name`` for a table that is not there.
        """
        return self.table(table).to_frame()

    def __repr__(self) -> str:
        return f"<{self.headline.format(self)}>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        from antiphon.view.documents import document_of  # as in page_of
        from antiphon.view.html import html

        document = document_of(self)
        shown = self.table()._repr_html_() if document is None else html(document)
        return f"<p>{escape(repr(self).strip('<>'))}</p>{shown}"

    def page(self, fabric: Fabric | None = None) -> str:
        """A page about it, HTML that needs nothing else; ``--report`` writes the same.

        Args:
            fabric: what it is about, where the page draws that; None: the one of this name.

        Raises:
            AntiphonError: ``not-applicable`` if the fabric is drawn, and has no name by which it can be made again.
        """
        return page_of(self, fabric)

    def report(self, path: str | os.PathLike[str], fabric: Fabric | None = None) -> None:
        """Writes the page to a file ``*.html``.

        Raises:
            AntiphonError: as ``page``, and ``bad-file`` if it cannot be written.
        """
        with written_whole(path, ".html") as file:
            file.write(self.page(fabric))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to a file ``*.json`` that ``load`` reads.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be written.
        """
        from antiphon.results.saved import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads what ``save`` wrote, equal to what was saved.

        Raises:
            AntiphonError: ``bad-file`` if it cannot be read or has something else.
        """
        from antiphon.results.saved import load

        return load(cls, path)  # type: ignore[no-any-return]

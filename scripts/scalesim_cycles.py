"""Writes data/scalesim/cycles.csv: cycles of small layers in SCALE-Sim, the oracle of the systolic compute model.

    make oracle

It runs in an environment of its own (scalesim-requirements.txt), because scalesim 3.0.0 fails with the numpy of
requirements-dev.txt. Memory never stalls the
array: SCALE-Sim computes the bandwidth that is needed (mode CALC), and buffers hold everything.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import sys
import tempfile
from pathlib import Path

# Name, then input height and width, filter height and width, channels, filters, stride.
LAYERS = [
    ("one-fold", 6, 6, 3, 3, 1, 4, 1),
    ("one-sum", 1, 1, 1, 1, 1, 1, 1),
    ("full-fold", 6, 6, 3, 3, 2, 16, 1),
    ("row-folds", 12, 12, 3, 3, 2, 4, 1),
    ("column-folds", 5, 5, 3, 3, 2, 40, 1),
    ("both", 10, 10, 3, 3, 5, 40, 1),
    ("strided", 11, 11, 3, 3, 3, 10, 2),
    ("wide", 3, 20, 3, 3, 4, 20, 1),
    ("pointwise", 7, 7, 1, 1, 24, 36, 1),
    ("connected", 1, 1, 1, 1, 100, 30, 1),
]
ARRAYS = [(4, 4), (8, 8), (16, 16), (4, 16), (16, 4), (1, 8), (8, 1)]
DATAFLOWS = ["os", "ws", "is"]
COLUMNS = ["layer", "ifmap_h", "ifmap_w", "filter_h", "filter_w", "channels", "num_filters", "stride"]

CONFIG = """[general]
run_name = run
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = 1024
FilterSramSzkB = 1024
OfmapSramSzkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = 1000
Dataflow = {dataflow}
ReadRequestBuffer = 4096
WriteRequestBuffer = 4096
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
"""


def cycles(rows: int, columns: int, dataflow: str) -> list[int]:
    """Cycles of each of `LAYERS`, in their order.

    Raises ImportError without the package, RuntimeError if the array was stalled.
    """
    from scalesim.scale_sim import scalesim

    with tempfile.TemporaryDirectory() as folder:
        config, topology = Path(folder, "config.cfg"), Path(folder, "layers.csv")
        config.write_text(CONFIG.format(rows=rows, columns=columns, dataflow=dataflow), "utf-8")
        # SCALE-Sim skips the first line and expects a comma at the end of each.
        topology.write_text("".join(",".join(map(str, line)) + ",\n" for line in [COLUMNS, *LAYERS]), "utf-8")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run = scalesim(True, False, str(config), str(topology), str(topology))
            run.run_scale(top_path=folder)
        with next(Path(folder).rglob("COMPUTE_REPORT.csv")).open(newline="", encoding="utf-8") as file:
            report = [{key.strip(): value for key, value in row.items() if key} for row in csv.DictReader(file)]
    if any(float(row["Stall Cycles"]) for row in report):
        raise RuntimeError(f"memory stalled the {rows}x{columns} array ({dataflow})")
    return [round(float(row["Total Cycles"])) for row in report]


def main(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, "rows", "columns", "dataflow", "cycles"])
        for (rows, columns), dataflow in itertools.product(ARRAYS, DATAFLOWS):
            for layer, count in zip(LAYERS, cycles(rows, columns, dataflow), strict=True):
                writer.writerow([*layer, rows, columns, dataflow, count])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

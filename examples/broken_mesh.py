# %% [markdown]
# # A mesh with broken links
#
# For an architect with a chiplet mesh of which links have failed: which AllReduce algorithm still works, how far each
# is from the limit, and what to keep of it. Open it as a notebook with Jupytext, or run it:
# `python examples/broken_mesh.py`.
# It needs the extras `networkx` and `plots`, and polars: `pip install 'antiphon[networkx,plots]' polars`.

# %%
from pathlib import Path

import networkx
import polars

import antiphon

here = Path(__file__).parent if "__file__" in globals() else Path("examples")

# %% [markdown]
# The mesh is a GraphML file of somebody else's tool: 16 chiplets, `capacity` of a link in GB/s, `delay` in ns. Two
# links are missing, and one is at half its rate.

# %%
graph = networkx.read_graphml(here / "broken_mesh.graphml")
mesh = antiphon.from_networkx(graph, "broken mesh", rate="capacity", latency="delay", coords="place")
rates = mesh.links["rate_gb_per_s"].tolist()
print(mesh.ranks, "chiplets,", len(rates), "links, rates", sorted(set(rates)))

# %% [markdown]
# Every algorithm that applies is built, proven and timed, and set against the lower bound of this mesh.

# %%
comparison = antiphon.compare(mesh, bytes="16MiB", system="tto")
print(comparison)
for run in comparison:
    print(f"{run.algorithm:20} {run.time_ns / 1e3:9,.0f} µs  {run.efficiency:.0%} of the limit")

# %% [markdown]
# In a notebook, `comparison` by itself is a table. What the broken mesh costs, against one that is whole:

# %%
whole = antiphon.compare("mesh:4x4@25/20ns", bytes="16MiB", system="tto")
best, before = comparison.best, whole.best
slower, limit = best.time_ns / before.time_ns, comparison.bound.time_ns / whole.bound.time_ns
print(f"{best.algorithm} takes {slower:.2f} times as long as {before.algorithm} on the whole mesh; limit: {limit:.2f}")

# %% [markdown]
# A chart, and the busiest links of the best run.

# %%
comparison.plot().savefig("broken_mesh.svg")
links = polars.DataFrame(best.result.links).sort("busy_ns", descending=True)
print(links.head(3))

# %% [markdown]
# All runs as a Parquet file, and the comparison as it is, to be gone on with.

# %%
polars.DataFrame(comparison).write_parquet("broken_mesh.parquet")
comparison.save("broken_mesh.json")
assert antiphon.Comparison.load("broken_mesh.json") == comparison

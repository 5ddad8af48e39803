//! Compute models: how long a rank works on a layer.

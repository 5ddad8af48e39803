//! Training: layers, overlap policies, iteration and epoch.

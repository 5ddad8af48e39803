"""What a collective should take on a GPU cluster, whether a log of nccl-tests is good, and why not."""

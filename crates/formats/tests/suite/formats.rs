//! Formats of other tools: what is written is proven, and reads back as the same schedule.

mod aligned;
mod by_hand;
mod flows;
mod goal;
mod machine;
mod msccl;
mod mscclpp;
mod plan_machine;
mod reports;

//! When packets go on to their next link.

use antiphon_base::parameter::Choice;
use serde::{Deserialize, Serialize};

/// See the module. For packets: flits always go on by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// When all of it has come.
    #[default]
    StoreAndForward,
    /// When its first flit has come, unless the rest would come too late.
    CutThrough,
}

impl Choice for Forwarding {
    const WHAT: &'static str = "switching";
    const ALL: &'static [(&'static str, Self)] =
        &[("store-and-forward", Forwarding::StoreAndForward), ("cut-through", Forwarding::CutThrough)];
}

//! Where packets wait between their links.

use crate::parameter::Choice;
use serde::{Deserialize, Serialize};

/// See the module. For packets: flits always wait in routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffering {
    /// In queues without end, each of one link.
    #[default]
    Endless,
    /// In the buffers of routers, whose inputs send one packet at a time through the crossbar.
    Routers,
}

impl Choice for Buffering {
    const WHAT: &'static str = "buffers";
    const ALL: &'static [(&'static str, Self)] = &[("endless", Buffering::Endless), ("routers", Buffering::Routers)];
}

//! The network interfaces of a rank.

use super::System;
use antiphon_base::parameter::{Choice, Domain, parameters};
use antiphon_base::units::Picos;
use serde::{Deserialize, Serialize};

/// Which interface of a rank takes a message, where they are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// The lowest that is free.
    #[default]
    LowestFree,
    /// The next free one after that of the message before.
    RoundRobin,
    /// That of the receiver's number, modulo the count: messages of one flow stay in order.
    Receiver,
    /// That of the port it leaves by: each has its own, whatever the count, so that no message waits for another one's link.
    Port,
}

impl Choice for Assignment {
    const WHAT: &'static str = "assignment";
    const ALL: &'static [(&'static str, Self)] = &[
        ("lowest-free", Assignment::LowestFree),
        ("round-robin", Assignment::RoundRobin),
        ("receiver", Assignment::Receiver),
        ("port", Assignment::Port),
    ];
}

parameters! {
    /// Network interfaces of one rank, used by schedules that are issued in step order.
    #[derive(Copy)]
    pub struct NetworkInterface of System[interface] {
        /// Network interfaces of a rank.
        #[parameter("interfaces", Domain::count(1, 1 << 16, ""), "TTO (HPCA 2024), Table II")]
        pub count: u32 = 4,
        /// Which interface takes a message: lowest free, next free in turn, by the receiver's number or by port.
        #[parameter("interface_assignment", Domain::Choice(Assignment::NAMES), "TTO artifact: lowest-free")]
        pub assignment: Assignment = Assignment::LowestFree,
        /// Packets that queue in one interface before it pushes back.
        #[parameter("interface_depth_packets", Domain::count(1, 1 << 32, "packets"), "TTO artifact: its queues and BookSim's")]
        pub depth_packets: u64 = 64,
        /// Virtual channels the packets of an interface are dealt to when they leave over several links.
        #[parameter("interface_virtual_channels", Domain::count(1, 1 << 16, ""), "TTO artifact: BookSim's injection")]
        pub virtual_channels: u32 = 4,
        /// Time to hand one packet to an interface.
        #[parameter("interface_issue_ns", Domain::ns(0.0), "TTO artifact: a message an interface and cycle")]
        pub issue_ps: Picos = 1_000,
    }
}

//! One node of a running fabric: it runs a rank's part of proven schedules, sends and receives messages, and passes on the packets that
//! others send through it.
//!
//! Whoever waits drives: [`RankCarrier::drive`] runs the event loop in the calling thread, which lends its memory meanwhile, so that
//! no other thread ever touches it. While nobody drives, a thread of the carrier passes on what is for others and keeps what comes early.

mod collective;
mod health;
mod lent;
mod messages;
mod node;
mod packet;
mod port;
mod rank_plan;
#[cfg(test)]
mod tests;

pub use health::Failure;
pub use lent::{Copied, LentMemory, LentPiece};
pub use packet::{MAX_PACKET_BYTES, PACKET_HEADER_BYTES};
pub use rank_plan::RankPlan;

use crate::wires::Wires;
use crate::{ElementType, MemoryPart, Reduction};
use antiphon_base::error::{Code, Error, Result};
use antiphon_model::fabric::{Fabric, LinkId, NodeId};
use mio::{Events, Interest, Poll, Token, Waker};
use node::{CarrierNode, Lent};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Token of [`RankCarrier::wake`].
const WAKE: Token = Token(usize::MAX);
/// How long a node that passes nothing on may be without a driver before its own thread takes over.
const LINGER: Duration = Duration::from_millis(2);
/// A node that passed something on so lately is likely to have to again.
const LATELY: Duration = Duration::from_millis(100);
/// Time to send what is left when a node leaves.
const FAREWELL: Duration = Duration::from_millis(500);

/// How a carrier works.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Bytes of data in a packet, at most [`MAX_PACKET_BYTES`].
    pub packet_bytes: usize,
    /// How long to look for news before sleeping.
    pub spin: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { packet_bytes: 32 << 10, spin: Duration::from_micros(50) }
    }
}

/// What runs at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunKey {
    /// A collective.
    Collective {
        /// Of these ranks.
        group: u32,
        /// Number in the group.
        sequence: u32,
    },
    /// A message that goes.
    Send(u64),
    /// A message that comes.
    Receive(u64),
}

/// What happened while a caller drove; runs are known by their places in what was lent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// Runs that have ended, with the node that a message came from, or why they failed. All their parts are final.
    pub ended: Vec<(usize, Result<NodeId>)>,
    /// Parts that have become final, of runs that go on.
    pub final_parts: Vec<(usize, Vec<u32>)>,
    /// Whether it was woken.
    pub is_woken: bool,
}

/// A node; see the module.
pub struct RankCarrier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    turn: Mutex<DriverTurn>,
    waker: Waker,
    /// Threads that drive or want to.
    drivers: AtomicUsize,
    is_woken: AtomicBool,
    is_closed: AtomicBool,
    idle: Mutex<()>,
    has_idled: Condvar,
    spin: Duration,
}

/// What one thread at a time has.
struct DriverTurn {
    poll: Poll,
    events: Events,
    node: CarrierNode,
}

impl RankCarrier {
    /// A node of a fabric with its wires, from now on.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if a link of the node has no wire; [`Code::Stalled`] if the system has no event loop.
    pub fn new(fabric: Fabric, node: NodeId, wires: Wires, settings: Settings) -> Result<RankCarrier> {
        let packet_bytes = settings.packet_bytes.clamp(64, MAX_PACKET_BYTES) & !15;
        let node = CarrierNode::new(fabric, node, wires, Settings { packet_bytes, ..settings })?;
        let of_system = |what: io::Error| Error::new(Code::Stalled, format!("no event loop: {what}"));
        let poll = Poll::new().map_err(of_system)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(of_system)?;
        let mut turn = DriverTurn { poll, events: Events::with_capacity(64), node };
        turn.register().map_err(of_system)?;
        let shared = Arc::new(Shared {
            turn: Mutex::new(turn),
            waker,
            drivers: AtomicUsize::new(0),
            is_woken: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            idle: Mutex::new(()),
            has_idled: Condvar::new(),
            spin: settings.spin,
        });
        let relay = shared.clone();
        let thread =
            thread::Builder::new().name("antiphon".into()).spawn(move || relay.pass_on()).map_err(of_system)?;
        Ok(RankCarrier { shared, thread: Some(thread) })
    }

    /// Begins a collective with a plan that all ranks of the group have, on numbers of a type. It moves while its memory is lent to
    /// [`RankCarrier::drive`], which says when `parts` of it are final.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if one with this group and sequence is under way, or parts have bytes in common; [`Code::Stalled`] if a link or node has failed.
    pub fn begin(
        &self,
        plan: Arc<RankPlan>,
        (group, sequence): (u32, u32),
        element: ElementType,
        reduction: Reduction,
        parts: &[MemoryPart],
    ) -> Result<RunKey> {
        let key = RunKey::Collective { group, sequence };
        let mut turn = self.shared.take();
        turn.node.has_failed().map_or(Ok(()), Err)?;
        turn.node.begin(key, plan, element, reduction, parts)?;
        Ok(key)
    }

    /// Begins to send a message to the rank at a node. `None` if the data are already on their way, and no longer needed.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if there is no such node; [`Code::Stalled`] if a link or node has failed.
    pub fn send(&self, group: u32, to: NodeId, tag: u32, data: &[u8]) -> Result<Option<RunKey>> {
        let mut turn = self.shared.take();
        turn.node.has_failed().map_or(Ok(()), Err)?;
        let key = turn.node.send(group, to, tag, data)?;
        turn.node.step(&mut Lent::new());
        Ok(key)
    }

    /// Asks for a message of `bytes` from the rank at a node, or from any.
    ///
    /// # Errors
    /// As [`RankCarrier::send`].
    pub fn receive(&self, group: u32, source: Option<NodeId>, tag: u32, bytes: usize) -> Result<RunKey> {
        let mut turn = self.shared.take();
        turn.node.has_failed().map_or(Ok(()), Err)?;
        turn.node.receive(group, source, tag, bytes)
    }

    /// Runs until one of the runs whose memory is lent has ended or has parts that are final, [`RankCarrier::wake`] is called, or
    /// `patience` is over.
    pub fn drive(&self, lent: &mut [(RunKey, LentMemory<'_>)], patience: Option<Duration>) -> Driven {
        let keys: Vec<RunKey> = lent.iter().map(|(key, _)| *key).collect();
        let mut memories: Lent<'_, '_> = lent.iter_mut().map(|(key, memory)| (*key, memory)).collect();
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut turn = self.shared.take();
        let mut quiet_since: Option<Instant> = None;
        loop {
            let has_changed = turn.node.step(&mut memories);
            let now = Instant::now();
            turn.node.tick(now);
            if !turn.node.finished.is_empty() {
                let ended = |(at, key)| Some((at, turn.node.finished.remove(key)?));
                let ended: Vec<_> = keys.iter().enumerate().filter_map(ended).collect();
                if !ended.is_empty() {
                    return Driven { ended, ..Driven::default() };
                }
            }
            let news = |(at, &key)| Some((at, turn.node.final_parts(key))).filter(|(_, parts)| !parts.is_empty());
            let final_parts: Vec<_> = keys.iter().enumerate().filter_map(news).collect();
            if !final_parts.is_empty() {
                return Driven { final_parts, ..Driven::default() };
            }
            if self.shared.drivers.load(Ordering::Acquire) > 1 {
                // Somebody begins or ends something, which takes no time.
                drop(turn);
                thread::yield_now();
                turn = self.shared.take();
            }
            if has_changed {
                quiet_since = None;
                continue;
            }
            let is_woken = self.shared.is_woken.swap(false, Ordering::AcqRel);
            if is_woken || deadline.is_some_and(|deadline| now >= deadline) {
                return Driven { is_woken, ..Driven::default() };
            }
            if now.duration_since(*quiet_since.get_or_insert(now)) < self.shared.spin {
                thread::yield_now();
                continue;
            }
            let most = deadline.map_or(health::BEAT, |deadline| health::BEAT.min(deadline - now));
            turn.sleep(most);
        }
    }

    /// What a run waits for, in words.
    pub fn waits_for(&self, key: RunKey) -> String {
        self.shared.take().node.waits_for(key)
    }

    /// How long ago anything came last, but signs of life.
    pub fn quiet(&self) -> Duration {
        self.shared.take().node.last_news.elapsed()
    }

    /// Makes the next [`RankCarrier::drive`], or one that runs, return.
    pub fn wake(&self) {
        self.shared.is_woken.store(true, Ordering::Release);
        _ = self.shared.waker.wake();
    }

    /// Gives up a run, which then ends nowhere.
    pub fn give_up(&self, key: RunKey) {
        self.shared.take().node.give_up(key);
    }

    /// Goes on with another fabric, without links of the first one that have failed, the same at all nodes; these must have failed runs
    /// behind them, and none may begin another before all have done this. `epoch` counts fabrics, modulo 256. If more has failed
    /// meanwhile, nothing can be begun until that is left out, too.
    ///
    /// # Errors
    /// [`Code::BadSpec`] if a link of this node has no wire.
    pub fn renew(&self, fabric: Fabric, epoch: u8, gone: &[LinkId]) -> Result<()> {
        self.shared.take().node.renew(fabric, epoch, gone)
    }

    /// What has failed and is not yet left out.
    pub fn failures(&self) -> Vec<Failure> {
        self.shared.take().node.health.failures.clone()
    }
}

impl Drop for RankCarrier {
    fn drop(&mut self) {
        {
            let mut turn = self.shared.take();
            turn.node.leave();
            let until = Instant::now() + FAREWELL;
            while turn.node.ports.iter().any(|port| port.has_more()) && Instant::now() < until {
                if !turn.node.step(&mut Lent::new()) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            self.shared.is_closed.store(true, Ordering::Release);
        }
        self.shared.has_idled.notify_all();
        _ = self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// A turn of somebody who drives.
struct Driving<'a> {
    shared: &'a Shared,
    turn: Option<MutexGuard<'a, DriverTurn>>,
}

impl std::ops::Deref for Driving<'_> {
    type Target = DriverTurn;

    fn deref(&self) -> &DriverTurn {
        self.turn.as_ref().expect("it is given back on drop")
    }
}

impl std::ops::DerefMut for Driving<'_> {
    fn deref_mut(&mut self) -> &mut DriverTurn {
        self.turn.as_mut().expect("it is given back on drop")
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let passes = self.turn.as_ref().is_some_and(|turn| turn.node.passed.is_some_and(|at| at.elapsed() < LATELY));
        self.turn = None;
        if self.shared.drivers.fetch_sub(1, Ordering::AcqRel) == 1 && passes {
            drop(self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner));
            self.shared.has_idled.notify_one();
        }
    }
}

impl Shared {
    /// Takes the turn from whoever has it.
    fn take(&self) -> Driving<'_> {
        self.drivers.fetch_add(1, Ordering::AcqRel);
        let turn = self.turn.try_lock().ok().unwrap_or_else(|| {
            _ = self.waker.wake();
            self.turn.lock().unwrap_or_else(PoisonError::into_inner)
        });
        Driving { shared: self, turn: Some(turn) }
    }

    /// What the carrier's own thread does.
    fn pass_on(&self) {
        while !self.is_closed.load(Ordering::Acquire) {
            if self.drivers.load(Ordering::Acquire) > 0 {
                let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if self.drivers.load(Ordering::Acquire) > 0 {
                    drop(self.has_idled.wait_timeout(idle, LINGER).unwrap_or_else(PoisonError::into_inner));
                }
                continue;
            }
            let Ok(mut turn) = self.turn.try_lock() else { continue };
            while self.drivers.load(Ordering::Acquire) == 0 && !self.is_closed.load(Ordering::Acquire) {
                let has_changed = turn.node.step(&mut Lent::new());
                turn.node.tick(Instant::now());
                if !has_changed && self.drivers.load(Ordering::Acquire) == 0 {
                    turn.sleep(health::BEAT);
                }
            }
        }
    }
}

impl DriverTurn {
    fn register(&mut self) -> io::Result<()> {
        for (number, wire) in self.node.ports.iter_mut().flat_map(|port| &mut port.wires).enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(wire.wire.source(), Token(number), interest)?;
        }
        Ok(())
    }

    /// Waits until a wire has news, somebody wakes it, or for so long.
    fn sleep(&mut self, most: Duration) {
        let wires = |node: &mut CarrierNode, what: fn(&mut dyn crate::wires::ByteWire) -> bool| {
            let wires = node.ports.iter_mut().flat_map(|port| &mut port.wires);
            wires.filter(|wire| !wire.is_dead).fold(false, |any, wire| what(&mut *wire.wire) | any)
        };
        if !wires(&mut self.node, |wire| wire.before_sleep()) {
            // An interrupted wait is a short one.
            _ = self.poll.poll(&mut self.events, Some(most));
        }
        wires(&mut self.node, |wire| {
            wire.after_sleep();
            false
        });
    }
}

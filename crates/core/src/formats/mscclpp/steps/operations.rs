//! What each operation is in steps.

use super::{Lowering, MAX_STEPS, Range, Segment, Way, Wire, bad, fail};
use crate::error::{Code, Result, nearest};
use crate::formats::msccl::Action;
use crate::formats::mscclpp::model::{Block as PlanBlock, Gpu as PlanGpu, Operation};
use crate::units::clip;

/// Operations of the executor that the proof does not follow.
const OTHERS: [&str; 3] = ["glres", "gstore", "pipeline"];
/// Those that it follows.
const KNOWN: [&str; 25] = [
    "nop",
    "barrier",
    "signal",
    "wait",
    "rlxsignal",
    "rlxwait",
    "flush",
    "sem_acquire",
    "sem_release",
    "put",
    "pws",
    "pwsf",
    "get",
    "copy",
    "re",
    "res",
    "rre",
    "rres",
    "ppkt",
    "rppkt",
    "upkt",
    "cpkt",
    "repkt",
    "respkt",
    "recpkt",
];
/// Sends what it adds and copies, as packets.
const REDUCE_COPY_SEND: &str = "recspkt";

impl Lowering<'_> {
    pub(super) fn operation(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation) -> Result<()> {
        if self.steps > MAX_STEPS {
            return fail(Code::TooLarge, format!("more than {MAX_STEPS} steps"));
        }
        if let Some(part) = op.tbg_info.filter(|part| part.tb_id >= part.tbg_size) {
            return bad(format!("tbg_info: part {} of {}", part.tb_id, part.tbg_size));
        }
        if let Some(name) = op.reduce_op.as_deref().filter(|name| *name != "sum") {
            return fail(Code::NotApplicable, format!("reduce_op is '{}'; the proof follows sums", clip(name)));
        }
        let way = match op.channel_type.as_deref() {
            Some("memory") | Some("none") | None => Way::Memory,
            Some("port") => Way::Port,
            Some("switch") => return fail(Code::NotApplicable, "switch channels are not followed by the proof"),
            Some(other) => return bad(format!("channel_type is '{}', expected memory or port", clip(other))),
        };
        match &op.name[..] {
            "nop" => {
                self.segment = Segment::default();
                Ok(())
            }
            "barrier" => self.barrier(op),
            "signal" | "wait" | "flush" | "rlxsignal" | "rlxwait" => {
                let relaxed = op.name.starts_with("rlx");
                if !relaxed {
                    self.meet(op.name != "signal")?;
                }
                for &id in &op.channel_ids {
                    let channel = self.channel(block, way, id)?;
                    match &op.name[..] {
                        "signal" | "rlxsignal" => self.signal(way, channel, relaxed)?,
                        "wait" | "rlxwait" => {
                            let step = self.wait(None);
                            self.signals.entry((gpu.id, way, channel)).or_default().1.push((step, relaxed));
                        }
                        _ => self.flush(way, channel)?,
                    }
                }
                if op.channel_ids.is_empty() { bad("channel_ids is missing") } else { Ok(()) }
            }
            "sem_acquire" | "sem_release" => {
                self.meet(op.name == "sem_acquire")?;
                for &id in &op.semaphore_ids {
                    if id as usize >= gpu.semaphores.len() {
                        return bad(format!("semaphore {id}, gpu {} has {}", gpu.id, gpu.semaphores.len()));
                    }
                    let step = self.wait(None);
                    let uses = self.semaphores.entry((gpu.id, id)).or_default();
                    if op.name == "sem_acquire" { uses.acquires.push(step) } else { uses.releases.push(step) }
                }
                if op.semaphore_ids.is_empty() { bad("semaphore_ids is missing") } else { Ok(()) }
            }
            "put" | "pws" | "pwsf" | "ppkt" => self.puts(gpu, block, op, way),
            "get" => {
                let (srcs, dsts) =
                    (self.remotes(gpu, block, op, &op.src_buff, way)?, self.locals(gpu, op, &op.dst_buff)?);
                let pairs = pairs(&srcs, &dsts)?;
                self.plain(&dsts, &srcs)?;
                pairs.into_iter().for_each(|(src, dst)| self.get(src, None, dst));
                Ok(())
            }
            "copy" | "upkt" | "cpkt" => {
                let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.locals(gpu, op, &op.dst_buff)?);
                let [(src, dst)] = pairs(&srcs, &dsts)?[..] else {
                    return bad("expected one src_buff and one dst_buff");
                };
                let (reads, writes) = (op.name == "upkt", op.name == "cpkt");
                self.plain(if writes { &[] } else { &dsts }, if reads { &[] } else { &srcs })?;
                if reads {
                    self.read_packets(src)?;
                }
                let step = self.own(Action::Copy, src, dst);
                if writes { self.packets_at(dst, step) } else { Ok(()) }
            }
            "re" | "res" | "rre" | "rres" => self.reduce(gpu, block, op, way),
            "repkt" | "respkt" | "recpkt" | REDUCE_COPY_SEND => self.reduce_packets(gpu, block, op, way),
            "rppkt" => {
                let srcs = self.locals(gpu, op, &op.src_buff)?;
                let dsts = self.remotes(gpu, block, op, &op.dst_buff, way)?;
                let [src] = srcs[..] else { return bad("expected one src_buff") };
                same_size(src, &dsts)?;
                self.plain(&[], &[])?;
                self.read_packets(src)?;
                self.send_packets(block, op, way, &vec![src; dsts.len()], &dsts)
            }
            other if OTHERS.contains(&other) => fail(
                Code::NotApplicable,
                format!("'{other}' is not followed by the proof; known: {}", KNOWN.join(", ")),
            ),
            other => {
                let near = nearest(other, KNOWN);
                bad(format!("no operation '{}'{near}; known: {}", clip(other), KNOWN.join(", ")))
            }
        }
    }

    pub(super) fn puts(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation, way: Way) -> Result<()> {
        let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.remotes(gpu, block, op, &op.dst_buff, way)?);
        let pairs = pairs(&srcs, &dsts)?;
        if op.name == "ppkt" {
            self.plain(&[], if way == Way::Memory { &srcs } else { &[] })?;
            return self.send_packets(block, op, way, &srcs, &dsts);
        }
        // A single put by a port is done by the thread that signals and waits.
        let alone = way == Way::Port && pairs.len() == 1;
        let before = (self.segment.data, self.segment.waited.take_if(|_| alone));
        self.plain(&dsts, &srcs)?;
        if alone {
            (self.segment.data, self.segment.waited) = before;
        }
        if way == Way::Memory {
            if op.name != "put" {
                return bad("it signals, which only puts by port channels do; expected put, nop, signal");
            }
            pairs.into_iter().for_each(|(src, dst)| self.put(src, dst));
            return Ok(());
        }
        if op.channel_ids.len() != pairs.len() {
            return bad(format!("{} channel_ids for {} puts", op.channel_ids.len(), pairs.len()));
        }
        for (&id, (src, dst)) in op.channel_ids.iter().zip(pairs) {
            let channel = self.channel(block, way, id)?;
            let ends = self.port(channel, dst.gpu)?;
            self.store(ends, src, dst);
            self.acknowledge(ends);
            if op.name != "put" {
                self.signal(way, channel, false)?;
            }
            if op.name == "pwsf" {
                self.flush(way, channel)?;
            }
        }
        Ok(())
    }

    pub(super) fn send_packets(
        &mut self,
        block: &PlanBlock,
        op: &Operation,
        way: Way,
        srcs: &[Range],
        dsts: &[Range],
    ) -> Result<()> {
        if way == Way::Port && op.channel_ids.len() != dsts.len() {
            return bad(format!("{} channel_ids for {} puts", op.channel_ids.len(), dsts.len()));
        }
        for (at, (&src, &dst)) in srcs.iter().zip(dsts).enumerate() {
            let ends = match way {
                Way::Memory => self.wire(Wire::Memory(dst.gpu), dst.gpu),
                Way::Port => {
                    let channel = self.channel(block, way, op.channel_ids[at])?;
                    self.port(channel, dst.gpu)?
                }
            };
            let (read, written) = self.store(ends, src, dst);
            match way {
                Way::Memory => drop(self.wait(Some(read))),
                Way::Port => drop(self.acknowledge(ends)),
            }
            self.packets_at(dst, written)?;
        }
        Ok(())
    }

    pub(super) fn reduce(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation, way: Way) -> Result<()> {
        let reads = op.name.starts_with("rr");
        let sends = op.name.ends_with('s');
        let (Some((src, others)), Some((dst, targets))) = (op.src_buff.split_first(), op.dst_buff.split_first()) else {
            return bad("expected src_buff and dst_buff");
        };
        let (src, dst) = (self.local(gpu, op, src)?, self.local(gpu, op, dst)?);
        let others = if reads { self.remotes(gpu, block, op, others, way)? } else { self.locals(gpu, op, others)? };
        let targets = self.remotes(gpu, block, op, targets, way)?;
        if !sends && !targets.is_empty() {
            return bad(format!("{} results, expected one", targets.len() + 1));
        }
        same_size(dst, &[&[src], &others[..], &targets].concat())?;
        self.apart(dst, if reads { std::slice::from_ref(&src) } else { &others })?;
        self.apart(dst, &[src])?;
        self.plain(&[&[dst], &targets[..]].concat(), &[&[src], &others[..]].concat())?;
        match reads {
            true => {
                let mut own = src;
                for &other in &others {
                    self.get(other, Some(own), dst);
                    own = dst;
                }
                if others.is_empty() {
                    self.sum(&[src], dst);
                }
            }
            false => self.sum(&[&[src], &others[..]].concat(), dst),
        }
        targets.iter().for_each(|&target| self.put(dst, target));
        Ok(())
    }

    pub(super) fn reduce_packets(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &Operation, way: Way) -> Result<()> {
        let (Some((src, others)), Some((dst, targets))) = (op.src_buff.split_first(), op.dst_buff.split_first()) else {
            return bad("expected src_buff and dst_buff");
        };
        let (src, dst) = (self.local(gpu, op, src)?, self.local(gpu, op, dst)?);
        let others = self.locals(gpu, op, others)?;
        let copies = op.name.contains("recpkt") || op.name == REDUCE_COPY_SEND;
        let (kept, targets) = match (copies, targets.split_first()) {
            (true, Some((kept, targets))) => (Some(self.local(gpu, op, kept)?), targets),
            (true, None) => return bad("expected a second dst_buff, for packets"),
            (false, _) => (None, targets),
        };
        let targets = self.remotes(gpu, block, op, targets, way)?;
        let sends = op.name == "respkt" || op.name == REDUCE_COPY_SEND;
        if !sends && !targets.is_empty() {
            return bad(format!("{} results are sent, expected none", targets.len()));
        }
        same_size(dst, &[&[src], &others[..], &targets, kept.as_slice()].concat())?;
        self.apart(dst, &[src])?;
        self.plain(&[dst], &[src])?;
        for &other in &others {
            self.read_packets(other)?;
        }
        self.sum(&[&[src], &others[..]].concat(), dst);
        if let Some(kept) = kept {
            let step = self.own(Action::Copy, dst, kept);
            self.packets_at(kept, step)?;
        }
        self.send_packets(block, op, way, &vec![dst; targets.len()], &targets)
    }

    pub(super) fn barrier(&mut self, op: &Operation) -> Result<()> {
        let (Some(id), Some(blocks)) = (op.barrier_id, op.num_threadblocks) else {
            return bad("barrier_id and num_threadblocks are needed");
        };
        let (gpu, block, ..) = self.at;
        let (before, after) = (self.wait(None).1, self.wait(None).1);
        let barrier = self.barriers.entry((gpu, id)).or_default();
        if !barrier.times.is_empty() && barrier.blocks != blocks {
            return bad(format!("barrier {id} is for {blocks} thread blocks, and elsewhere for {}", barrier.blocks));
        }
        barrier.blocks = blocks;
        barrier.times.entry(block).or_default().push((before, after));
        self.segment = Segment::default();
        Ok(())
    }
}

/// Pairs of what is read and what is written.
fn pairs(srcs: &[Range], dsts: &[Range]) -> Result<Vec<(Range, Range)>> {
    if srcs.len() != dsts.len() || srcs.is_empty() {
        return bad(format!("{} src_buff for {} dst_buff", srcs.len(), dsts.len()));
    }
    srcs.iter().zip(dsts).try_for_each(|(&src, &dst)| same_size(src, &[dst]))?;
    Ok(srcs.iter().copied().zip(dsts.iter().copied()).collect())
}

fn same_size(range: Range, others: &[Range]) -> Result<()> {
    match others.iter().find(|other| other.count != range.count) {
        Some(other) => bad(format!("buffers of {} and {} chunks", range.count, other.count)),
        None => Ok(()),
    }
}

//! The steps of each operation.

use super::{ChannelKind, ChunkRange, PlanLowering, ThreadResource, Wire};
use crate::msccl::StepAction;
use crate::mscclpp::model::{PlanBlock, PlanGpu, PlanOperation};
use crate::{bad, fail};
use antiphon_base::error::{Code, Result, nearest};
use antiphon_base::units::clip;

/// Operations of the executor that the proof does not follow.
const OTHERS: [&str; 3] = ["glres", "gstore", "pipeline"];
/// Those that it follows.
const KNOWN: &str = "nop, barrier, signal, wait, rlxsignal, rlxwait, flush, sem_acquire, sem_release, put, \
     pws, pwsf, get, copy, re, res, rre, rres, ppkt, rppkt, upkt, cpkt, repkt, respkt, recpkt";
/// Sends what it adds and copies, as packets.
const REDUCE_COPY_SEND: &str = "recspkt";

impl PlanLowering<'_> {
    pub(super) fn operation(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation) -> Result<()> {
        self.check_steps()?;
        if let Some(part) = op.tbg_info.filter(|part| part.tb_id >= part.tbg_size) {
            return bad(format!("tbg_info: part {} of {}", part.tb_id, part.tbg_size));
        }
        if let Some(name) = op.reduce_op.as_deref().filter(|name| *name != "sum") {
            return fail(Code::NotApplicable, format!("reduce_op is '{}'; the proof follows sums", clip(name)));
        }
        let way = match op.channel_type.as_deref() {
            Some("memory") | Some("none") | None => ChannelKind::Memory,
            Some("port") => ChannelKind::Port,
            Some("switch") => return fail(Code::NotApplicable, "switch channels are not followed by the proof"),
            Some(other) => return bad(format!("channel_type is '{}', expected memory or port", clip(other))),
        };
        match &op.name[..] {
            "nop" => {
                self.meet();
                Ok(())
            }
            "barrier" => self.barrier(op),
            "signal" | "wait" | "flush" | "rlxsignal" | "rlxwait" => self.synchronise(gpu, block, op, way),
            "sem_acquire" | "sem_release" => self.use_semaphores(gpu, op),
            "put" | "pws" | "pwsf" => self.puts(gpu, block, op, way),
            "ppkt" => self.put_packets(gpu, block, op, way),
            "rppkt" => self.pass_packets(gpu, block, op, way),
            "get" => self.gets(gpu, block, op, way),
            "copy" | "upkt" | "cpkt" => self.copies(gpu, op),
            "re" | "res" | "rre" | "rres" => self.reduce(gpu, block, op, way),
            "repkt" | "respkt" | "recpkt" | REDUCE_COPY_SEND => self.reduce_packets(gpu, block, op, way),
            other if OTHERS.contains(&other) => {
                fail(Code::NotApplicable, format!("'{other}' is not followed by the proof; known: {KNOWN}"))
            }
            other => {
                let near = nearest(other, KNOWN.split(", "));
                bad(format!("no operation '{}'{near}; known: {KNOWN}", clip(other)))
            }
        }
    }

    /// Signals, waits and flushes, each by a thread of its own.
    fn synchronise(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
        let relaxed = op.name.starts_with("rlx");
        let waits = op.name.ends_with("wait");
        for (thread, &id) in op.channel_ids.iter().enumerate() {
            self.begin_alone(thread);
            let channel = self.channel(block, way, id, thread, waits)?;
            match &op.name[..] {
                "flush" => self.flush(way, channel)?,
                _ if waits => {
                    let step = self.wait(None);
                    self.signals.entry((gpu.id, way, channel)).or_default().1.push((step, relaxed));
                }
                _ => self.signal(way, channel, relaxed)?,
            }
        }
        if op.channel_ids.is_empty() { bad("channel_ids is missing") } else { Ok(()) }
    }

    fn use_semaphores(&mut self, gpu: &PlanGpu, op: &PlanOperation) -> Result<()> {
        let waits = op.name == "sem_acquire";
        for (thread, &id) in op.semaphore_ids.iter().enumerate() {
            if id as usize >= gpu.semaphores.len() {
                return bad(format!("semaphore {id}, gpu {} has {}", gpu.id, gpu.semaphores.len()));
            }
            self.begin_alone(thread);
            self.used_by(ThreadResource::Semaphore, id, waits, thread)?;
            let step = self.wait(None);
            let uses = self.semaphores.entry((gpu.id, id)).or_default();
            if waits { uses.acquires.push(step) } else { uses.releases.push(step) }
        }
        if op.semaphore_ids.is_empty() { bad("semaphore_ids is missing") } else { Ok(()) }
    }

    fn put_packets(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
        let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.remotes(gpu, block, op, &op.dst_buff, way)?);
        let pairs = pairs(&srcs, &dsts)?;
        if way == ChannelKind::Port {
            // A port sends chunks that are packets already, and waits for none.
            return self.port_packets(block, op, &pairs, false);
        }
        self.messages += pairs.len() as u64;
        for (src, dst) in pairs {
            for (first, size) in self.pieces(src.count) {
                self.begin()?;
                self.put_packet(src.part(first, size), dst.part(first, size))?;
            }
        }
        Ok(())
    }

    /// Sends packets on as they are.
    fn pass_packets(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
        let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.remotes(gpu, block, op, &op.dst_buff, way)?);
        let [src] = srcs[..] else { return bad("expected one src_buff") };
        same_size(src, &dsts)?;
        if way == ChannelKind::Port {
            let pairs: Vec<(ChunkRange, ChunkRange)> = dsts.iter().map(|&dst| (src, dst)).collect();
            return self.port_packets(block, op, &pairs, true);
        }
        self.messages += dsts.len() as u64;
        for (first, size) in self.pieces(src.count) {
            let src = src.part(first, size);
            self.begin()?;
            self.read_packets(src)?;
            dsts.iter().try_for_each(|dst| self.put_packet(src, dst.part(first, size)))?;
        }
        Ok(())
    }

    fn gets(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
        let (srcs, dsts) = (self.remotes(gpu, block, op, &op.src_buff, way)?, self.locals(gpu, op, &op.dst_buff)?);
        let pairs = pairs(&srcs, &dsts)?;
        self.plain(&[&srcs[..], &dsts].concat())?;
        self.messages += pairs.len() as u64;
        for (src, dst) in pairs {
            self.begin()?;
            self.get(src, None, dst);
        }
        Ok(())
    }

    /// Copies plain data, packets to plain data, or plain data to packets.
    fn copies(&mut self, gpu: &PlanGpu, op: &PlanOperation) -> Result<()> {
        let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.locals(gpu, op, &op.dst_buff)?);
        let [(src, dst)] = pairs(&srcs, &dsts)?[..] else {
            return bad("expected one src_buff and one dst_buff");
        };
        let (reads, writes) = (op.name == "upkt", op.name == "cpkt");
        if !reads && !writes {
            self.plain(&[src, dst])?;
            self.begin()?;
            self.own(StepAction::Copy, src, dst);
            return Ok(());
        }
        self.plain(if reads { &dsts } else { &srcs })?;
        for (first, size) in self.pieces(src.count) {
            let (src, dst) = (src.part(first, size), dst.part(first, size));
            self.begin()?;
            if reads {
                self.read_packets(src)?;
            }
            let step = self.own(StepAction::Copy, src, dst);
            if writes {
                self.packets_at(dst, step)?;
            }
        }
        Ok(())
    }

    fn puts(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
        let (srcs, dsts) = (self.locals(gpu, op, &op.src_buff)?, self.remotes(gpu, block, op, &op.dst_buff, way)?);
        let pairs = pairs(&srcs, &dsts)?;
        self.plain(&[&srcs[..], &dsts].concat())?;
        self.messages += pairs.len() as u64;
        if way == ChannelKind::Memory {
            if op.name != "put" {
                return bad("it signals, which only puts by port channels do; expected put, nop, signal");
            }
            for (src, dst) in pairs {
                self.begin()?;
                self.put(src, dst);
            }
            return Ok(());
        }
        if op.channel_ids.len() != pairs.len() {
            return bad(format!("{} channel_ids for {} puts", op.channel_ids.len(), pairs.len()));
        }
        // Each is told to the port by a thread of its own.
        for (thread, (&id, (src, dst))) in op.channel_ids.iter().zip(pairs).enumerate() {
            self.begin_alone(thread);
            let channel = self.channel(block, way, id, thread, false)?;
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

    /// Stores packets to a peer's memory; the next step waits until they have been read here.
    fn put_packet(&mut self, src: ChunkRange, dst: ChunkRange) -> Result<()> {
        let ends = self.wire(Wire::Memory(dst.gpu), dst.gpu);
        let (read, written) = self.store(ends, src, dst);
        self.wait(Some(read));
        self.packets_at(dst, written)
    }

    /// Lets ports send packets, which are waited for or not.
    fn port_packets(
        &mut self,
        block: &PlanBlock,
        op: &PlanOperation,
        pairs: &[(ChunkRange, ChunkRange)],
        waits: bool,
    ) -> Result<()> {
        if op.channel_ids.len() != pairs.len() {
            return bad(format!("{} channel_ids for {} puts", op.channel_ids.len(), pairs.len()));
        }
        self.messages += pairs.len() as u64;
        for (thread, (&id, &(src, dst))) in op.channel_ids.iter().zip(pairs).enumerate() {
            self.begin_alone(thread);
            let channel = self.channel(block, ChannelKind::Port, id, thread, false)?;
            let ends = self.port(channel, dst.gpu)?;
            self.of_packets(src)?;
            if waits {
                self.read_packets(src)?;
            }
            for (first, size) in self.pieces(src.count) {
                let (_, written) = self.store(ends, src.part(first, size), dst.part(first, size));
                self.acknowledge(ends);
                self.packets_at(dst.part(first, size), written)?;
            }
        }
        Ok(())
    }

    fn reduce(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
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
        self.plain(&[&[src, dst], &targets[..], &others].concat())?;
        self.messages += (targets.len() + if reads { others.len() } else { 0 }) as u64;
        self.begin()?;
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

    fn reduce_packets(&mut self, gpu: &PlanGpu, block: &PlanBlock, op: &PlanOperation, way: ChannelKind) -> Result<()> {
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
        if way == ChannelKind::Port {
            return bad("packets that it adds up go by memory channels");
        }
        let targets = self.remotes(gpu, block, op, targets, way)?;
        let sends = op.name == "respkt" || op.name == REDUCE_COPY_SEND;
        if !sends && !targets.is_empty() {
            return bad(format!("{} results are sent, expected none", targets.len()));
        }
        same_size(dst, &[&[src], &others[..], &targets, kept.as_slice()].concat())?;
        self.apart(dst, &[src])?;
        self.plain(&[src, dst])?;
        self.messages += targets.len() as u64;
        for (first, size) in self.pieces(dst.count) {
            let part = |range: &ChunkRange| range.part(first, size);
            let (src, dst, others) = (part(&src), part(&dst), others.iter().map(part).collect::<Vec<_>>());
            self.begin()?;
            others.iter().try_for_each(|&other| self.read_packets(other))?;
            self.sum(&[&[src], &others[..]].concat(), dst);
            if let Some(kept) = kept.as_ref().map(part) {
                let step = self.own(StepAction::Copy, dst, kept);
                self.packets_at(kept, step)?;
            }
            targets.iter().try_for_each(|target| self.put_packet(dst, part(target)))?;
        }
        Ok(())
    }

    fn barrier(&mut self, op: &PlanOperation) -> Result<()> {
        let (Some(id), Some(blocks)) = (op.barrier_id, op.num_threadblocks) else {
            return bad("barrier_id and num_threadblocks are needed");
        };
        let (gpu, block, ..) = self.at;
        self.meet();
        let (before, after) = (self.wait(None), self.wait(None));
        let barrier = self.barriers.entry((gpu, id)).or_default();
        if !barrier.times.is_empty() && barrier.blocks != blocks {
            return bad(format!("barrier {id} is for {blocks} thread blocks, and elsewhere for {}", barrier.blocks));
        }
        barrier.blocks = blocks;
        barrier.times.entry(block).or_default().push((before.1, after.1));
        self.segment.start = Some(after);
        Ok(())
    }
}

/// Pairs of what is read and what is written.
fn pairs(srcs: &[ChunkRange], dsts: &[ChunkRange]) -> Result<Vec<(ChunkRange, ChunkRange)>> {
    if srcs.len() != dsts.len() || srcs.is_empty() {
        return bad(format!("{} src_buff for {} dst_buff", srcs.len(), dsts.len()));
    }
    srcs.iter().zip(dsts).try_for_each(|(&src, &dst)| same_size(src, &[dst]))?;
    Ok(srcs.iter().copied().zip(dsts.iter().copied()).collect())
}

fn same_size(range: ChunkRange, others: &[ChunkRange]) -> Result<()> {
    match others.iter().find(|other| other.count != range.count) {
        Some(other) => bad(format!("buffers of {} and {} chunks", range.count, other.count)),
        None => Ok(()),
    }
}

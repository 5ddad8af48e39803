//! To text, as consumers want it: double quotes, no declaration, one element a line.

use super::model::{Algo, COLLECTIVES, ChunkPlace, MscclStep, StepAction};
use antiphon_base::error::Result;
use antiphon_base::watch::Watch;
use std::fmt::Write;

/// The text of an algorithm. O(steps).
///
/// # Errors
/// [`antiphon_base::error::Code::Interrupted`].
pub fn write(algo: &Algo, watch: Watch) -> Result<String> {
    let mut text = String::new();
    let coll = COLLECTIVES.iter().find(|(_, kind)| *kind == algo.kind).map_or("custom", |(name, _)| name);
    let name = quick_xml::escape::escape(&algo.name);
    let mut line = |what: String| writeln!(text, "{what}").expect("memory can be written");
    line(format!(
        r#"<algo name="{name}" proto="{}" nchannels="{}" nchunksperloop="{}" ngpus="{}" coll="{coll}" inplace="{}" outofplace="{}" minBytes="{}" maxBytes="{}">"#,
        algo.proto,
        algo.channels,
        algo.chunks,
        algo.gpus.len(),
        u8::from(algo.in_place),
        u8::from(algo.out_of_place),
        algo.min_bytes,
        algo.max_bytes
    ));
    for (id, gpu) in algo.gpus.iter().enumerate() {
        let (input, output, scratch) = (gpu.input, gpu.output, gpu.scratch);
        line(format!(r#"  <gpu id="{id}" i_chunks="{input}" o_chunks="{output}" s_chunks="{scratch}">"#));
        for (id, block) in gpu.blocks.iter().enumerate() {
            let peer = |peer: Option<u32>| peer.map_or(-1, i64::from);
            let (send, recv, channel) = (peer(block.send), peer(block.recv), block.channel);
            line(format!(r#"    <tb id="{id}" send="{send}" recv="{recv}" chan="{channel}">"#));
            for (id, step) in block.steps.iter().enumerate() {
                watch.at(id, block.steps.len())?;
                line(self::step(id, step));
            }
            line("    </tb>".into());
        }
        line("  </gpu>".into());
    }
    line("</algo>".into());
    Ok(text)
}

fn step(id: usize, step: &MscclStep) -> String {
    let place = |place: ChunkPlace, used: bool| (place.buffer.letter(), if used { place.offset as i64 } else { -1 });
    // Where a step reads or writes nothing, both ends say where its data are.
    let (reads, writes, some) = (step.action.reads(), step.action.writes(), step.action != StepAction::Nop);
    let (from, source) = place(if reads { step.src } else { step.dst }, some);
    let (to, target) = place(if writes { step.dst } else { step.src }, some);
    let (tb, other) = step.after.map_or((-1, -1), |(tb, step)| (tb as i64, step as i64));
    format!(
        r#"      <step s="{id}" type="{}" srcbuf="{from}" srcoff="{source}" dstbuf="{to}" dstoff="{target}" cnt="{}" depid="{tb}" deps="{other}" hasdep="{}"/>"#,
        step.action.name(),
        step.count,
        u8::from(step.awaited)
    )
}

//! GOAL: sends, receives and their dependencies, for LogGOPSim and ATLAHS (Hoefler et al., Group Operation Assembly
//! Language, ICPP 2009). It says nothing of data, so it is only written.

use super::{FileFormat, Foreign, FormatInfo, check_consumer};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::watch::Watch;
use antiphon_model::schedule::{Event, Program, Schedule, TransferId};
use std::collections::HashMap;
use std::fmt::Write;

/// Who reads it; the other does too.
const CONSUMER: &str = "loggopsim";
/// Most messages that are written.
const MAX_MESSAGES: u64 = 1 << 20;

const INFO: FormatInfo =
    FormatInfo { name: "goal", about: "GOAL (num_ranks)", extension: ".goal", consumers: &[CONSUMER] };

/// The format.
pub struct Goal;

impl FileFormat for Goal {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn recognises(&self, text: &str) -> bool {
        text.trim_start().starts_with("num_ranks ")
    }

    fn read(&self, _: &str, _: Watch) -> Result<Box<dyn Foreign>> {
        Err(Error::new(Code::NotApplicable, "goal: files say nothing of data, so they are only written"))
    }

    fn write(&self, schedule: &Schedule, consumer: &str, watch: Watch) -> Result<String> {
        check_consumer(self, consumer)?;
        write(schedule, watch)
    }
}

/// A send and a receive for each chunk of a transfer. Sends to a peer follow each other; both ends keep the schedule's
/// dependencies. Barriers between phases are not written.
///
/// Complexity: O(messages * dependencies).
///
/// # Errors
/// [`Code::TooLarge`] past [`MAX_MESSAGES`]; [`Code::Interrupted`].
fn write(schedule: &Schedule, watch: Watch) -> Result<String> {
    schedule.without_switches("goal")?;
    let messages = schedule.messages();
    if messages > MAX_MESSAGES {
        let what = format!("goal: {messages} messages, at most {MAX_MESSAGES} are written; choose fewer chunks");
        return Err(Error::new(Code::TooLarge, what));
    }
    let mut text = format!("num_ranks {}\n", schedule.ranks);
    let mut done = 0;
    for (rank, program) in (0u32..).zip(&Program::new(schedule).ranks) {
        let mut line = |what: String| writeln!(text, "{what}").expect("memory can be written");
        line(format!("\nrank {rank} {{"));
        let mut labels: HashMap<(TransferId, u64, Event), u32> = HashMap::new();
        for stream in &program.streams {
            for (tag, (at, chunk)) in stream.messages(schedule).enumerate() {
                let id = stream.instructions[at].transfer;
                let event = if stream.sends { Event::Sent } else { Event::Applied };
                let label = labels.len() as u32 + 1;
                labels.insert((id, chunk, event), label);
                let bytes = schedule.message_bytes(&schedule.transfers[id as usize]);
                let what = if stream.sends { "send" } else { "recv" };
                let way = if stream.sends { "to" } else { "from" };
                line(format!("l{label}: {what} {bytes}b {way} {} tag {tag}", stream.peer));
            }
        }
        for stream in &program.streams {
            let mut before = None;
            for (at, chunk) in stream.messages(schedule) {
                watch.at(done, 2 * messages as usize)?;
                done += 1;
                let instruction = &stream.instructions[at];
                let event = if stream.sends { Event::Sent } else { Event::Applied };
                let label = labels[&(instruction.transfer, chunk, event)];
                let waits = instruction.waits.iter().filter_map(|wait| {
                    let chunk = chunk.checked_sub(wait.lag() as u64)?;
                    labels.get(&(wait.transfer(), chunk, wait.event())).copied()
                });
                let mut needed: Vec<u32> = waits.chain(before.filter(|_| stream.sends)).collect();
                needed.sort_unstable();
                needed.dedup();
                needed.iter().for_each(|other| line(format!("l{label} requires l{other}")));
                before = Some(label);
            }
        }
        line("}".into());
    }
    Ok(text)
}

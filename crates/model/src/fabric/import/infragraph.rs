//! InfraGraph: devices of components, instances of devices, and edges with slices between them, in YAML or JSON
//! (github.com/Keysight/infragraph, `docs/openapi.yaml`; read as `infragraph_service.py` of 3.1 does).

use super::yaml::YamlValue;
use super::{FabricDraft, SaidRate, has_key};
use crate::fabric::{MAX_LINKS, MAX_NODES, NodeId, link};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::clip;
use std::collections::HashMap;
use std::rc::Rc;

/// Most devices that are parts of each other.
const MAX_DEPTH: usize = 16;

/// Of a file in a form that was given up.
const OLDER: &str = "InfraGraph before 3.1, which is not read; write it anew with the package infragraph";

/// Whether a text is of this format, by its keys.
pub fn recognises(text: &str) -> bool {
    let has = |key| has_key(text, key);
    has("devices") && (has("instances") || has("components") || has("connections"))
}

/// Reads a text. O(nodes + links).
pub fn read(text: &str) -> Result<FabricDraft> {
    let whole = YamlValue::parse(text)?;
    let infrastructure = whole.get("infrastructure").unwrap_or(&whole);
    let mut reader = InfragraphReader::default();
    for device in infrastructure.list("devices")? {
        let name = device.text_of("name")?;
        if reader.devices.insert(name, Device::of(device)?).is_some() {
            return Err(device.wrong(format!("there are two devices '{}'", clip(name))));
        }
    }
    if infrastructure.list("instances")?.is_empty() {
        return Err(infrastructure.wrong("there are no instances; devices alone are no fabric"));
    }
    // Ranks come before all other nodes, so that they have the lowest numbers.
    for ranks in [true, false] {
        reader.instantiated = 0;
        for instance in infrastructure.list("instances")? {
            let (name, device, count) = (instance.text_of("name")?, instance.text_of("device")?, counted(instance)?);
            reader.instances.insert(name, (device, count));
            for index in 0..count {
                reader.components(instance, device, &format!("{name}.{index}"), ranks, 0)?;
            }
        }
    }
    for instance in infrastructure.list("instances")? {
        let (name, device, count) = (instance.text_of("name")?, instance.text_of("device")?, counted(instance)?);
        for index in 0..count {
            reader.device_edges(device, &format!("{name}.{index}"))?;
        }
    }
    let links = named(infrastructure.list("links")?)?;
    for edge in infrastructure.list("edges")? {
        let [ones, others] = ["ep1", "ep2"].map(|key| {
            let end = edge.get(key).ok_or_else(|| edge.wrong(format!("{key} is missing")))?;
            reader.of_instances(end)
        });
        reader.join(edge, &links, &ones?, &others?)?;
    }
    reader.finish()
}

struct Device<'a> {
    /// Kind, and how many, by name and in their order.
    components: Vec<(&'a str, &'a str, usize)>,
    by_name: HashMap<&'a str, usize>,
    edges: &'a [Rc<YamlValue>],
    links: HashMap<&'a str, &'a YamlValue>,
}

impl<'a> Device<'a> {
    fn of(device: &'a YamlValue) -> Result<Device<'a>> {
        let (mut components, mut by_name) = (vec![], HashMap::new());
        for component in device.list("components")? {
            if component.get("choice").is_none() && component.get("type").is_some() {
                return Err(component.wrong(format!("component 'type' instead of 'choice': {OLDER}")));
            }
            let (name, kind) = (component.text_of("name")?, component.text_of("choice")?);
            if by_name.insert(name, components.len()).is_some() {
                return Err(component.wrong(format!("there are two components '{}'", clip(name))));
            }
            components.push((name, kind, counted(component)?));
        }
        if device.get("connections").is_some() {
            return Err(device.wrong(format!("'connections' instead of 'edges': {OLDER}")));
        }
        Ok(Device { components, by_name, edges: device.list("edges")?, links: named(device.list("links")?)? })
    }
}

fn named(list: &[Rc<YamlValue>]) -> Result<HashMap<&str, &YamlValue>> {
    list.iter().map(|item| Ok((item.text_of("name")?, &**item))).collect()
}

/// How many there are of an instance or component.
fn counted(value: &YamlValue) -> Result<usize> {
    let count = value.count("count")?;
    if count > MAX_NODES as u64 {
        return Err(Error::new(Code::TooLarge, value.wrong(format!("count is {count}; at most {MAX_NODES}")).message));
    }
    Ok(count as usize)
}

#[derive(Default)]
struct InfragraphReader<'a> {
    draft: FabricDraft,
    devices: HashMap<&'a str, Device<'a>>,
    instances: HashMap<&'a str, (&'a str, usize)>,
    /// The first of two links between a pair of nodes: a later edge between them says its rate anew.
    pairs: HashMap<(NodeId, NodeId), usize>,
    edges: Vec<(NodeId, NodeId, String, SaidRate, Option<u64>)>,
    /// Devices and components that were gone through.
    instantiated: usize,
    /// Pairs of ends that were gone through.
    joined: usize,
    uneven: usize,
}

impl<'a> InfragraphReader<'a> {
    fn device(&self, at: &YamlValue, name: &str) -> Result<&Device<'a>> {
        self.devices.get(name).ok_or_else(|| {
            let near = nearest(name, self.devices.keys().copied());
            at.wrong(format!("there is no device '{}'{near}", clip(name)))
        })
    }

    /// Adds the components of a device that are ranks, or those that are not.
    fn components(&mut self, at: &YamlValue, device: &str, prefix: &str, ranks: bool, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(at.wrong(format!(
                "more than {MAX_DEPTH} devices within each other; is '{}' part of itself?",
                clip(device)
            )));
        }
        let components = self.device(at, device)?.components.clone();
        for (name, kind, count) in components {
            for index in 0..count {
                self.instantiated += 1;
                if self.instantiated > 2 * MAX_NODES {
                    return Err(Error::new(
                        Code::TooLarge,
                        at.wrong(format!("more than {} components", 2 * MAX_NODES)).message,
                    ));
                }
                let path = format!("{prefix}.{name}.{index}");
                if kind == "device" {
                    self.components(at, name, &path, ranks, depth + 1)?;
                } else if is_rank(kind) == ranks {
                    self.draft.node(&path, ranks).map_err(|error| at.wrong(error.message))?;
                }
            }
        }
        Ok(())
    }

    /// Joins the components of one instance of a device, its parts first.
    fn device_edges(&mut self, device: &'a str, prefix: &str) -> Result<()> {
        let Some(known) = self.devices.get(device) else { return Ok(()) };
        let (components, edges, links) = (known.components.clone(), known.edges, known.links.clone());
        for (name, kind, count) in components {
            for index in 0..count {
                if kind == "device" {
                    self.device_edges(name, &format!("{prefix}.{name}.{index}"))?;
                }
            }
        }
        for edge in edges {
            let [ones, others] = ["ep1", "ep2"].map(|key| {
                let end = edge.get(key).ok_or_else(|| edge.wrong(format!("{key} is missing")))?;
                let within = match end.get("device") {
                    Some(_) => format!("{}.{}", end.text_of("device")?, end.text_of("component")?),
                    None => end.text_of("component")?.to_string(),
                };
                self.of_device(end, device, prefix, &within)
            });
            self.join(edge, &links, &ones?, &others?)?;
        }
        Ok(())
    }

    /// Nodes of a path such as `cx5[0:2].port[0]` within a device.
    fn of_device(&self, at: &YamlValue, device: &str, prefix: &str, path: &str) -> Result<Vec<NodeId>> {
        let mut names = vec![prefix.to_string()];
        let mut device = device;
        let parts: Vec<&str> = path.split('.').collect();
        for part in &parts {
            let (name, slice) = sliced(at, part)?;
            let known = self.device(at, device)?;
            let Some(&(name, _, count)) = known.by_name.get(name).map(|&index| &known.components[index]) else {
                if name == device && parts.len() > 1 {
                    continue;
                }
                let near = nearest(name, known.by_name.keys().copied());
                return Err(at.wrong(format!("device '{}' has no component '{}'{near}", clip(device), clip(name))));
            };
            let indices = indices(at, slice, count)?;
            if names.len().saturating_mul(indices.len()) > MAX_NODES {
                return Err(Error::new(Code::TooLarge, at.wrong(format!("more than {MAX_NODES} ends")).message));
            }
            names =
                names.iter().flat_map(|before| indices.iter().map(move |at| format!("{before}.{name}.{at}"))).collect();
            device = name;
        }
        names.iter().map(|name| self.id(at, name)).collect()
    }

    fn id(&self, at: &YamlValue, name: &str) -> Result<NodeId> {
        let found = self.draft.ids.get(name).copied();
        found.ok_or_else(|| at.wrong(format!("'{}' is no component that can be joined", clip(name))))
    }

    /// Nodes of an end of an edge between instances.
    fn of_instances(&self, end: &YamlValue) -> Result<Vec<NodeId>> {
        let (name, slice) = sliced(end, end.text_of("instance")?)?;
        let Some(&(device, count)) = self.instances.get(name) else {
            let near = nearest(name, self.instances.keys().copied());
            return Err(end.wrong(format!("there is no instance '{}'{near}", clip(name))));
        };
        let mut nodes = vec![];
        for index in indices(end, slice, count)? {
            nodes.extend(self.of_device(end, device, &format!("{name}.{index}"), end.text_of("component")?)?);
            if nodes.len() > MAX_NODES {
                return Err(Error::new(Code::TooLarge, end.wrong(format!("more than {MAX_NODES} ends")).message));
            }
        }
        Ok(nodes)
    }

    /// Joins the ends of an edge by its scheme.
    fn join(
        &mut self,
        edge: &YamlValue,
        links: &HashMap<&str, &YamlValue>,
        ones: &[NodeId],
        others: &[NodeId],
    ) -> Result<()> {
        let label = edge.text_of("link")?;
        let (said, latency) = links.get(label).map_or(Ok((UNSAID, None)), |link| physical(link))?;
        let pairs: Vec<(NodeId, NodeId)> = match edge.text_of("scheme")? {
            "one2one" => {
                self.uneven += usize::from(ones.len() != others.len());
                ones.iter().copied().zip(others.iter().copied()).collect()
            }
            "many2many" => {
                if self.joined + ones.len().saturating_mul(others.len()) > MAX_LINKS {
                    return Err(Error::new(Code::TooLarge, edge.wrong(format!("more than {MAX_LINKS} pairs")).message));
                }
                ones.iter().flat_map(|&one| others.iter().map(move |&other| (one, other))).collect()
            }
            other => {
                return Err(edge.wrong(format!("scheme is '{}'; known: one2one, many2many", clip(other))));
            }
        };
        self.joined += pairs.len();
        for (one, other) in pairs.into_iter().filter(|(one, other)| one != other) {
            let entry = (one, other, label.to_string(), said, latency);
            match self.pairs.get(&(one.min(other), one.max(other))) {
                Some(&at) => self.edges[at] = entry,
                None => {
                    self.pairs.insert((one.min(other), one.max(other)), self.edges.len());
                    self.edges.push(entry);
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<FabricDraft> {
        let InfragraphReader { mut draft, edges, uneven, .. } = self;
        for (one, other, label, said, latency) in edges {
            let first = draft.links.len();
            draft.both(one, other, &label, said).map_err(|error| error.at(format_args!("link '{}'", clip(&label))))?;
            draft.links[first..].iter_mut().for_each(|link| link.latency = latency);
        }
        if uneven > 0 {
            draft.note(format!(
                "{uneven} edges of scheme one2one have more ends on one side; those left over are not joined"
            ));
        }
        Ok(draft)
    }
}

fn is_rank(kind: &str) -> bool {
    // Versions before 1 say npu.
    matches!(kind, "xpu" | "npu")
}

/// A link of which nothing is said.
const UNSAID: SaidRate = SaidRate::Nothing(None, "links without a bandwidth");

/// Rate and latency of a link.
fn physical(value: &YamlValue) -> Result<(SaidRate, Option<u64>)> {
    let Some(physical) = value.get("physical") else { return Ok((UNSAID, None)) };
    let mut said = UNSAID;
    if let Some(bandwidth) = physical.get("bandwidth") {
        let [bits, bytes, transfers] = ["gigabits_per_second", "gigabytes_per_second", "gigatransfers_per_second"]
            .map(|key| bandwidth.number(key));
        said = match (bits?, bytes?, transfers?) {
            (Some(bits), _, _) => SaidRate::Rate(bits / 8.0),
            (_, Some(bytes), _) => SaidRate::Rate(bytes),
            (_, _, Some(_)) => SaidRate::Nothing(None, "transfers a second do not say how wide a link is"),
            _ => UNSAID,
        };
    }
    let mut latency = None;
    if let Some(given) = physical.get("latency") {
        for (key, nanos) in [("ms", 1e6), ("us", 1e3), ("ns", 1.0)] {
            if let Some(number) = given.number(key)? {
                latency = Some(link::latency(number * nanos).map_err(|error| given.wrong(error.message))?);
            }
        }
    }
    Ok((said, latency))
}

/// Name and slice of `name[slice]`.
fn sliced<'t>(at: &YamlValue, text: &'t str) -> Result<(&'t str, &'t str)> {
    match text.split_once('[') {
        None => Ok((text, "")),
        Some((name, rest)) => match rest.strip_suffix(']') {
            Some(slice) => Ok((name, slice)),
            None => Err(at.wrong(format!("'{}' has no ] at its end", clip(text)))),
        },
    }
}

/// Numbers of a slice as Python has them: `3`, `-1`, `0:4`, `::2`; all for none.
fn indices(at: &YamlValue, slice: &str, count: usize) -> Result<Vec<usize>> {
    let wrong = |why: &str| at.wrong(format!("[{}]: {why}; write for example [0:4]", clip(slice)));
    let parts: Vec<&str> = slice.split(':').map(str::trim).collect();
    let mut numbers = [None; 3];
    for (place, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        let number: i64 = part.parse().map_err(|_| wrong("not a whole number"))?;
        *numbers.get_mut(place).ok_or_else(|| wrong("more than three numbers"))? = Some(number);
    }
    let size = count as i64;
    let from_end = |number: i64| if number < 0 { number.saturating_add(size) } else { number };
    if parts.len() == 1 {
        let Some(number) = numbers[0] else { return Ok((0..count).collect()) };
        let number = from_end(number);
        return match usize::try_from(number) {
            Ok(index) if index < count => Ok(vec![index]),
            _ => Err(wrong(&format!("there are {count}, numbered from 0"))),
        };
    }
    let step = numbers[2].unwrap_or(1);
    let (start, stop) = match step {
        0 => return Err(wrong("a step of 0")),
        1.. => (
            numbers[0].map_or(0, |number| from_end(number).clamp(0, size)),
            numbers[1].map_or(size, |number| from_end(number).clamp(0, size)),
        ),
        _ => (
            numbers[0].map_or(size - 1, |number| from_end(number).clamp(-1, size - 1)),
            numbers[1].map_or(-1, |number| from_end(number).clamp(-1, size - 1)),
        ),
    };
    let (mut found, mut next) = (vec![], start);
    while (step > 0 && next < stop) || (step < 0 && next > stop) {
        found.push(next as usize);
        next = next.saturating_add(step);
    }
    Ok(found)
}

//! Fabric specifications: `KIND[:SIZE][:OPTION...][@RATE[/LATENCY][+...]][,DEGRADATION...]`, of files with
//! `*BOXES@rails[:RATE[/LATENCY]]` before the first comma.

use super::aries::{self, Aries, Items};
use super::degrade::degrade;
use super::import::JoinedBoxes;
use super::view::parse_group;
use super::{Dimension, DimensionShape, Fabric, Link, Shape, link};
use super::{ace, bigraph, clos, dgx, dgx1v, expander, file, grid, hamming, mi, spark, switch, tpu};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::options::{Opt, Options};
use antiphon_base::parameter::Domain;
use antiphon_base::registry::Registry;
use antiphon_base::units::{Picos, Rate, clip, parse_decimal, parse_time};

/// Most characters in a specification.
const MAX_SPEC: usize = 8192;

/// One kind of fabric that [`Fabric::parse`] knows. Each is declared beside its constructor, and listed in [`PRESETS`].
#[derive(Debug, Clone, Copy)]
pub struct FabricPreset {
    /// Name in front of the colon.
    pub kind: &'static str,
    /// A complete specification.
    pub example: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    /// What may stand behind the size, each after a colon or a comma.
    pub options: &'static [Opt],
    /// The fabric of a request; `None` for a wrong number of sizes.
    build: fn(&PresetRequest) -> Option<Result<Fabric>>,
}

impl FabricPreset {
    /// One that `build` makes: [`Fabric::parse`] says what is wrong where it gives `None`.
    pub(super) const fn new(
        kind: &'static str,
        example: &'static str,
        description: &'static str,
        build: fn(&PresetRequest) -> Option<Result<Fabric>>,
    ) -> FabricPreset {
        FabricPreset { kind, example, description, options: &[], build }
    }

    /// The same with options.
    pub(super) const fn with(self, options: &'static [Opt]) -> FabricPreset {
        FabricPreset { options, ..self }
    }

    /// Whether an item after a comma is an option, or one more size: `4` in `dragonfly:2,4,2@50`.
    fn takes(&self, item: &str) -> bool {
        let item = item.split(['@', ':']).next().unwrap_or(item);
        let key = item.split_once('=').map_or(item, |(key, _)| key);
        self.example.contains(',') && is_number(item) || self.options.iter().any(|o| o.parameter.key == key)
    }

    /// Size and options of what stands behind the colon. A flag may stand for itself: `raw` is `raw=yes`.
    fn split_options<'a>(&self, text: &'a str) -> Result<(Option<&'a str>, Options)> {
        let is_flag = |item: &str| {
            let flags = self.options.iter().filter(|option| matches!(option.parameter.domain, Domain::Flag));
            flags.into_iter().any(|option| option.parameter.key == item)
        };
        let (first, rest) = text.split_once(':').unwrap_or((text, ""));
        let sizes = first.split(',').take_while(|item| !item.contains('=') && !is_flag(item));
        let size = &first[..sizes.map(|item| item.len() + 1).sum::<usize>().saturating_sub(1)];
        let items = first[size.len()..].split([',', ':']).chain(rest.split([',', ':'])).filter(|item| !item.is_empty());
        let items: Vec<_> =
            items.map(|item| if item.contains('=') { item.into() } else { format!("{item}=yes") }).collect();
        let options = Options::parse(self.kind, &items.join(","), self.options)?;
        Ok(((size.len() == text.len() || !size.is_empty()).then_some(size), options))
    }
}

/// Every kind of fabric, in documentation order.
pub const PRESETS: [FabricPreset; 32] = [
    grid::MESH,
    grid::TORUS,
    grid::RING,
    grid::FC,
    grid::FBFLY,
    grid::HYPERCUBE,
    switch::SWITCH,
    bigraph::BIGRAPH,
    clos::FAT_TREE,
    clos::DRAGONFLY,
    expander::SLIMFLY,
    expander::JELLYFISH,
    hamming::HAMMINGMESH,
    grid::UB_MESH,
    dgx1v::DGX1V,
    dgx1v::DGX_V100,
    dgx::DGX_A100,
    dgx::DGX_H100,
    dgx::DGX_H200,
    dgx::DGX_B200,
    dgx::H800,
    dgx::GB200_NVL72,
    spark::DGX_SPARK,
    mi::BOX_MI250,
    mi::BOX_MI300X,
    tpu::TPU_V4,
    tpu::TPU_V5P,
    grid::TT_GALAXY,
    grid::FUGAKU,
    ace::ACE,
    aries::ARIES,
    file::FILE,
];

/// Makes the fabric of what stands behind the colon.
pub type MakeFabric = dyn Fn(&str) -> Result<Fabric> + Send + Sync;

/// A kind of fabric that is added while a program runs.
pub struct AddedFabric {
    /// A complete specification.
    pub example: String,
    /// What it is, in one line.
    pub description: String,
    /// What makes it.
    pub build: Box<MakeFabric>,
}

/// Those kinds, by what is in front of the colon.
pub static ADDED: Registry<AddedFabric> = Registry::new();

/// What a specification asks of a preset: `KIND[:SIZE][@PARAMETERS]`.
pub(super) struct PresetRequest<'a> {
    /// All of the specification, which names the fabric.
    pub name: &'a str,
    /// What stands behind the colon.
    pub size: Option<&'a str>,
    /// Rates and latencies of links.
    pub parameters: &'a [Parameters],
    /// Options of the preset.
    pub options: &'a Options,
    /// Boxes of a file that rails join.
    pub boxes: Option<JoinedBoxes>,
}

impl PresetRequest<'_> {
    /// The `N` sizes of `4x4x8`, or of nothing; `None` for another number of them.
    pub fn sizes<const N: usize>(&self) -> Option<[u32; N]> {
        self.size.map_or(Some(vec![]), dimensions)?.try_into().ok()
    }

    /// A fabric with parameters for the links that have none.
    pub fn with_parameters(&self, fabric: Result<Fabric>) -> Result<Fabric> {
        with_parameters(self.name, fabric?, self.parameters)
    }

    /// The same for a graph: one for all links, or one for each label in this order.
    pub fn with_labelled(&self, labels: &[&str], fabric: Result<Fabric>) -> Result<Fabric> {
        let (mut fabric, count) = (fabric?, self.parameters.len());
        if ![0, 1, labels.len()].contains(&count) {
            let (kinds, labels) = (labels.len(), labels.join(", "));
            let what = format!(
                "{count} rates for {kinds} kinds of links ({labels}); write one for all or one for each, joined by +"
            );
            return Err(self.refused(what));
        }
        for link in fabric.links.iter_mut().filter(|_| count > 0) {
            let kind = labels.iter().position(|label| *label == link.dimension).unwrap_or(0);
            let (rate, latency) = self.parameters[kind % count];
            (link.rate, link.latency) = (Some(rate), latency);
        }
        Ok(fabric)
    }

    /// That the specification is wrong.
    pub fn refused(&self, what: impl std::fmt::Display) -> Error {
        Error::new(Code::BadSpec, format!("fabric '{}': {what}", self.name))
    }
}

impl Fabric {
    /// The fabric of a specification, which becomes its name: `mesh:8x8`, `dgx1v@25`,
    /// `torus:4x4@100/20ns,slow=0-1:0.5,exclude=5`.
    ///
    /// Kinds are in [`PRESETS`]. `@RATE[/LATENCY]` (GB/s = 1e9 bytes per second, and a time with
    /// unit) is for links without their own; on a product of dimensions there may be one for each dimension, joined by
    /// `+`, in the order of the sizes: `torus:4x4x4@200/90ns+25/500ns+25/500ns`. On a machine they replace its own, one
    /// for each kind of its links: `dgx-h100:2@370+48`. Degradations: `drop=A-B` (both directions, all parallel links),
    /// `drop=A>B` (one direction), `slow=A-B:FACTOR`, `slow=A>B:FACTOR` (the last one of a link counts), `exclude=A`
    /// (only forwards; other ranks are renumbered), `dead=A` (loses its
    /// links too); nodes are numbers or names of the intact fabric. All but `slow` leave a
    /// [`super::Shape::Graph`].
    ///
    /// # Errors
    /// [`Code::UnknownName`] for an unknown kind, [`Code::BadSpec`] or [`Code::BadSize`] for what does
    /// not parse, does not exist or is disconnected, [`Code::TooLarge`] past the limits of a fabric,
    /// and the errors of [`Fabric::from_file`].
    pub fn parse(spec: &str) -> Result<Fabric> {
        if spec.len() > MAX_SPEC {
            let message = format!("fabric '{}' has more than {MAX_SPEC} characters", clip(spec));
            return Err(Error::new(Code::BadSpec, format!("{message}; use file:PATH instead")));
        }
        // A path may hold brackets, but does not end with one.
        if let Some((whole, ranks)) = spec.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
            let whole = Fabric::parse(whole)?;
            return Ok(whole.group(&parse_group(&whole, ranks)?)?.fabric);
        }
        if !spec.starts_with("file:") && spec.contains(['[', ']']) {
            let what = format!("fabric '{}': a group of ranks comes last, as in mesh:8x8@100[0,1,8,9]", clip(spec));
            return Err(Error::new(Code::BadSpec, what));
        }
        let (head, mut items) = split_head(spec);
        let place = |error: Error| error.at(format_args!("fabric '{spec}'"));
        let (head, boxes) = split_boxes(head).map_err(place)?;
        let (base, parameters) = split_parameters(head).map_err(place)?;
        let fabric = match base.strip_prefix("aries:").map_or(Ok(None), Aries::parse).map_err(place)? {
            Some(aries) => {
                let read = Items::parse(&aries, items.into_iter()).map_err(place)?;
                items = read.others;
                let fabric = aries.fabric(spec, read.configurations, read.switching_ps)?;
                with_parameters(spec, fabric, &parameters)?
            }
            None => intact(spec, base, &parameters, boxes)?,
        };
        if items.is_empty() { Ok(fabric) } else { Ok(degrade(fabric, items.into_iter())?.fabric) }
    }
}

/// Splits what is degraded, with sizes and options of its kind behind commas, from the degradations. `@` ends it.
fn split_head(spec: &str) -> (&str, Vec<&str>) {
    let kind = spec.split([':', ',', '@']).next().unwrap_or("");
    let preset = PRESETS.iter().find(|preset| preset.kind == kind);
    let mut items: Vec<&str> = spec.split(',').collect();
    let mut end = items.remove(0).len();
    while let (Some(preset), Some(&item)) = (preset, items.first()) {
        if spec[..end].contains('@') || !preset.takes(item) {
            break;
        }
        end += 1 + item.len();
        items.remove(0);
    }
    (&spec[..end], items)
}

/// What `@RATE[/LATENCY]` gives.
pub(super) type Parameters = (Rate, Option<Picos>);

/// Splits `KIND:SIZE@RATE/LATENCY+...` at the last `@`. A path may hold one: what does not start as a
/// rate then belongs to the path.
fn split_parameters(head: &str) -> Result<(&str, Vec<Parameters>)> {
    let Some((base, text)) = head.rsplit_once('@') else { return Ok((head, vec![])) };
    if head.starts_with("file:") {
        return Ok(link_parameters(text).map_or((head, vec![]), |one| (base, vec![one])));
    }
    Ok((base, text.split('+').map(link_parameters).collect::<Result<_>>()?))
}

/// Splits `FILE*BOXES@rails[:RATE[/LATENCY]]` where the boxes begin.
fn split_boxes(head: &str) -> Result<(&str, Option<JoinedBoxes>)> {
    let Some((before, after)) = head.rsplit_once("@rails") else { return Ok((head, None)) };
    let Some((file, count)) = before.rsplit_once('*') else { return Ok((head, None)) };
    let digits = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    if !digits || !(after.is_empty() || after.starts_with(':')) {
        return Ok((head, None));
    }
    let count = count.parse().unwrap_or(usize::MAX);
    if count < 2 {
        return Err(Error::new(Code::BadSpec, format!("{count} box(es); rails join at least 2")));
    }
    let rail = after.strip_prefix(':').map(link_parameters).transpose()?;
    Ok((file, Some(JoinedBoxes { count, rail })))
}

fn link_parameters(text: &str) -> Result<Parameters> {
    let (rate, latency) = match text.split_once('/') {
        Some((rate, latency)) => (rate, Some(parse_time(latency)?)),
        None => (text, None),
    };
    let gb_per_s = parse_decimal(rate).ok_or_else(|| {
        Error::new(Code::BadSpec, format!("'@{}' is not @RATE[/LATENCY]; write for example @100/20ns", clip(text)))
    })?;
    Ok((link::rate(gb_per_s)?, latency))
}

/// Sets the parameters of links that have none: one for all, or one for each dimension of a product.
fn set_parameters(fabric: &mut Fabric, parameters: &[Parameters]) -> Result<()> {
    let set = |link: &mut Link, (rate, latency): Parameters| {
        link.rate.get_or_insert(rate);
        link.latency = link.latency.or(latency);
    };
    match (&mut fabric.shape, parameters) {
        (_, []) => {}
        (Shape::Product(product), _) => {
            let dimensions = product.dimensions.len();
            if ![1, dimensions].contains(&parameters.len()) {
                let what = format!(
                    "{} rates for {dimensions} dimension(s); write one for all or one for each, joined by +",
                    parameters.len()
                );
                return Err(Error::new(Code::BadSpec, what));
            }
            let of = |number: usize| parameters[number % parameters.len()];
            let positions = product.positions(fabric.nodes.len());
            for link in &mut fabric.links {
                let ends = positions[link.from as usize].zip(positions[link.to as usize]);
                // A preset with a switch has one dimension.
                let number = ends.and_then(|(from, to)| product.coordinates.differ(from, to)).unwrap_or(0);
                set(link, of(number));
            }
            for (number, dimension) in product.dimensions.iter_mut().enumerate() {
                let (rate, latency) = of(number);
                // To the switch, and from it.
                let hops = if dimension.shape == DimensionShape::Switch { 2 } else { 1 };
                let latency = dimension.latency.or(latency.map(|latency| latency.saturating_mul(hops)));
                let rate = dimension.link_rate().unwrap_or(rate);
                *dimension = Dimension { latency, ..dimension.with_link_rate(Some(rate)) };
            }
        }
        (_, &[one]) => fabric.links.iter_mut().for_each(|link| set(link, one)),
        _ => {
            let what = format!("{} rates, but it has no dimensions; write one for all links", parameters.len());
            return Err(Error::new(Code::BadSpec, what));
        }
    }
    Ok(())
}

/// The fabric of `KIND[:SIZE]` with parameters of its links, named `spec`.
fn intact(spec: &str, base: &str, parameters: &[Parameters], boxes: Option<JoinedBoxes>) -> Result<Fabric> {
    let (kind, size) = base.split_once(':').map_or((base, None), |(kind, size)| (kind, Some(size)));
    let Some(preset) = PRESETS.iter().find(|preset| preset.kind == kind) else {
        // A file by its path alone, whose name tells it from every kind.
        if base.contains(['.', '/']) && std::path::Path::new(base).is_file() {
            return from_file(spec, base, parameters, boxes);
        }
        let Some((_, added)) = ADDED.find(kind).filter(|_| boxes.is_none()) else { return Err(unknown(base, kind)) };
        let fabric = Fabric { name: spec.into(), ..(added.build)(size.unwrap_or(""))? };
        return with_parameters(spec, fabric, parameters);
    };
    if boxes.is_some() && kind != file::FILE.kind {
        let what = "rails join the boxes of a file; those of a machine are a number, as in dgx-h100:4";
        return Err(Error::new(Code::BadSpec, format!("fabric '{spec}': {what}")));
    }
    let (size, options) = match size.filter(|_| kind != file::FILE.kind) {
        Some(text) => {
            let place = |error: Error| error.at(format_args!("fabric '{spec}'"));
            preset.split_options(text).map_err(place)?
        }
        None => (size, Options::parse(preset.kind, "", preset.options)?),
    };
    (preset.build)(&PresetRequest { name: spec, size, parameters, options: &options, boxes }).unwrap_or_else(|| {
        let what = format!("fabric '{spec}': wrong size; write for example {}", preset.example);
        Err(Error::new(Code::BadSpec, what))
    })
}

/// No preset, and no file.
fn unknown(base: &str, kind: &str) -> Error {
    let path = std::path::Path::new(base);
    if kind.contains(['.', '/']) {
        let what = match (path.is_dir(), path.exists()) {
            (true, _) => "is a folder",
            (_, true) => "is no regular file",
            _ => "there is no such file",
        };
        return Error::new(Code::BadFile, format!("fabric '{}': {what}", clip(base)));
    }
    let added = ADDED.all().into_iter().map(|(kind, _)| kind);
    let kinds: Vec<&str> = PRESETS.iter().map(|preset| preset.kind).chain(added).collect();
    let list = kinds.join(", ");
    let what = format!("no fabric '{}'{}; known: {list}", clip(kind), nearest(kind, kinds));
    Error::new(Code::UnknownName, what)
}

/// The fabric of a file, or of many of its boxes, with parameters for the links that have none.
pub(super) fn from_file(
    spec: &str,
    path: &str,
    parameters: &[Parameters],
    boxes: Option<JoinedBoxes>,
) -> Result<Fabric> {
    let place = |error: Error| error.at(format_args!("fabric '{spec}'"));
    file::read(spec, path, boxes, |fabric| set_parameters(fabric, parameters).map_err(place))
}

/// `fabric` with parameters for the links that have none.
fn with_parameters(spec: &str, mut fabric: Fabric, parameters: &[Parameters]) -> Result<Fabric> {
    set_parameters(&mut fabric, parameters).map_err(|error| error.at(format_args!("fabric '{spec}'")))?;
    Ok(fabric)
}

/// The numbers of `8x8`; `None` if it is anything else. Numbers past `u32` saturate, for the presets
/// to refuse.
pub(super) fn dimensions(size: &str) -> Option<Vec<u32>> {
    numbers(size, 'x')
}

/// The numbers of a text that are joined by a mark.
pub(super) fn numbers(text: &str, mark: char) -> Option<Vec<u32>> {
    text.split(mark).map(|text| is_number(text).then(|| text.parse().unwrap_or(u32::MAX))).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Shape;

    #[test]
    fn every_example_is_a_fabric() {
        for preset in PRESETS.iter().filter(|preset| preset.kind != "file") {
            let fabric = Fabric::parse(preset.example).unwrap();
            assert_eq!(fabric.name, preset.example);
            assert!(fabric.is_symmetric());
            let graphs = ["dgx-a100", "mi250", "fat-tree", "dragonfly", "slimfly", "jellyfish", "hammingmesh"];
            assert!(fabric.shape != Shape::Graph || graphs.contains(&preset.kind));
            let coords = fabric.nodes[0].coords.len();
            assert!(fabric.nodes.iter().all(|node| node.coords.len() == coords));
        }
    }

    #[test]
    fn a_group_comes_last() {
        for spec in ["mesh:8x8[0,1]@100", "mesh:8x8[0,1],drop=1-2", "mesh:8x8[0,1", "mesh:8x8]0,1", "[0,1]mesh:8x8"] {
            let error = Fabric::parse(spec).unwrap_err();
            assert!(error.message.contains("comes last"), "{}", error.message);
        }
    }

    #[test]
    fn sizes() {
        for (spec, ranks, links) in [
            ("mesh:4x4x4", 64, 288),
            ("torus:4x4x4", 64, 384),
            ("torus:2x2", 4, 8),
            ("ring:2", 2, 2),
            ("ring:16", 16, 32),
            ("fc:8", 8, 56),
            ("fbfly:8x8", 64, 896),
            ("hypercube:4", 16, 64),
            ("hypercube:12", 4096, 12 * 4096),
            ("switch:16", 16, 32),
            ("bigraph:4", 32, 96),
            ("bigraph:4x4", 32, 96),
            ("dgx1v", 8, 48),
            ("dgx-a100:1", 8, 16),
            ("dgx-a100:2", 16, 96),
            ("dgx-h100:2", 16, 64),
            ("dgx-h100:512", 4096, 4 * 4096),
            ("mi250:2", 32, 2 * 56 + 64),
            ("mi300x:2", 16, 2 * 56 + 32),
            ("dgx-v100:raw", 8, 48),
            ("dgx-a100:3:nics=2", 24, 24 * 2 + 24 * 2 + 6 * 2),
            ("dgx-a100:2:nics=1,raw", 16, 16 * 2 + 16 * 2 + 2 * 2),
            ("dgx-h200:4:nics=4", 32, 32 * 2 + 32 * 2 + 16 * 2),
            ("dgx-b200:512:nics=8", 4096, 4 * 4096),
            ("h800:1:raw", 8, 16),
            ("gb200-nvl72:56", 4032, 4 * 4032),
            ("mi300x:3:nics=1:raw", 24, 3 * 56 + 24 * 2 + 3 * 2),
            ("ub-mesh:8x8x8x8", 4096, 28 * 4096),
            ("tt-galaxy", 32, 128),
            ("fugaku:2x2x2", 8, 24),
            ("fugaku:4x4x4", 64, 6 * 64),
            ("fat-tree:64x64", 4096, 2 * 4096 + 2 * 4096),
            ("jellyfish:512,16,8,1,slow=0-4096:0.5", 4096, 2 * 4096 + 512 * 8),
            ("tpu-v4:16x16x16", 4096, 6 * 4096),
            ("tpu-v5p:8x16x16:twisted", 2048, 6 * 2048),
            ("tpu-v4:2x2x1", 4, 8),
        ] {
            let fabric = Fabric::parse(spec).unwrap();
            assert_eq!((fabric.ranks(), fabric.links.len()), (ranks, links), "{spec}");
        }
    }

    #[test]
    fn link_parameters_reach_every_link() {
        let fabric = Fabric::parse("mesh:2x2@12.5/20ns").unwrap();
        assert!(
            fabric.links.iter().all(|link| (link.rate, link.latency) == (Some(Rate(12_500_000_000)), Some(20_000)))
        );
        assert!(fabric.product().is_some());
        assert_eq!(Fabric::parse("dgx1v@25").unwrap().links[0].latency, None);
    }

    #[test]
    fn a_rate_for_every_dimension() {
        let fabric = Fabric::parse("torus:4x2x3@200/90ns+25/500ns+12.5").unwrap();
        for link in &fabric.links {
            let expected = match &*link.dimension {
                "z" => (200, Some(90_000)),
                "y" => (25, Some(500_000)),
                _ => (12, None),
            };
            assert_eq!((link.rate.unwrap().0 / 1_000_000_000, link.latency), expected, "{link:?}");
        }
        let along = &fabric.product().unwrap().dimensions;
        assert_eq!(
            along.iter().map(|along| along.rate.unwrap().0).collect::<Vec<_>>(),
            [400e9, 25e9, 25e9].map(|r| r as u64)
        );
        assert_eq!(along.iter().map(|along| along.latency).collect::<Vec<_>>(), [Some(90_000), Some(500_000), None]);
        // One is for all; a message to a switch and on from it waits twice.
        let same = |one: &str, other: &str| Fabric::parse(one).unwrap().links == Fabric::parse(other).unwrap().links;
        assert!(same("mesh:3x3@5/1ns", "mesh:3x3@5/1ns+5/1ns") && same("hypercube:3@5", "hypercube:3@5+5+5"));
        let switch = Fabric::parse("switch:4@10/20ns").unwrap();
        assert!(
            switch.links.iter().all(|link| (link.rate, link.latency) == (Some(Rate(10_000_000_000)), Some(20_000)))
        );
        let along = switch.product().unwrap().dimensions[0];
        assert_eq!((along.rate, along.latency), (Some(Rate(10_000_000_000)), Some(40_000)));
        // Degradations come after.
        let slow = Fabric::parse("mesh:2x2@10+20,slow=0-1:0.5,slow=0-2:0.1").unwrap();
        let link = |to| slow.link(slow.link_between(0, to).unwrap());
        assert_eq!((link(1).rate, link(1).speed_permille), (Some(Rate(20_000_000_000)), 500));
        assert_eq!((link(2).rate, link(2).speed_permille), (Some(Rate(10_000_000_000)), 100));
        assert_eq!(Fabric::parse("mesh:2x2@10+20,dead=0").unwrap().links.len(), 4);
    }

    /// Specifications that are refused, with code and reason.
    const REFUSED: &[(&str, Code, &str)] = &[
        ("mesh:4x4@1+2+3", Code::BadSpec, "3 rates for 2 dimension(s); write one for all or one for each, joined by +"),
        ("torus:4x4x4@1+2", Code::BadSpec, "2 rates for 3 dimension(s)"),
        ("switch:8@1+2", Code::BadSpec, "2 rates for 1 dimension(s)"),
        ("dgx1v@25+50", Code::BadSpec, "2 rates, but it has no dimensions; write one for all links"),
        ("bigraph:4@25+50", Code::BadSpec, "it has no dimensions"),
        ("mesh:4x4@1+", Code::BadSpec, "'@' is not @RATE[/LATENCY]"),
        ("mesh:4x4@1/1ns+2/2", Code::BadSize, "time '2'"),
        ("mesh:4x4@1+0", Code::BadSize, "link rate 0"),
        ("mseh:8x8", Code::UnknownName, "did you mean 'mesh'?"),
        ("", Code::UnknownName, "known: mesh, torus"),
        ("mesh", Code::BadSpec, "for example mesh:8x8"),
        ("mesh:", Code::BadSpec, "for example mesh:8x8"),
        ("mesh:8x", Code::BadSpec, "for example mesh:8x8"),
        ("mesh:8x+8", Code::BadSpec, "for example mesh:8x8"),
        ("mesh:8x٣", Code::BadSpec, "for example mesh:8x8"),
        ("ring:4x4", Code::BadSpec, "for example ring:16"),
        ("bigraph:2x2x2", Code::BadSpec, "for example bigraph:4x4"),
        ("dgx1v:8", Code::BadSpec, "for example dgx1v"),
        ("file:", Code::BadSpec, "for example file:fabric.json"),
        ("mesh:1x1", Code::BadSpec, "1 rank(s)"),
        ("ring:1", Code::BadSpec, "1 rank(s)"),
        ("switch:1", Code::BadSpec, "1 rank(s)"),
        ("hypercube:0", Code::BadSpec, "dimension"),
        ("mesh:0x4", Code::BadSpec, "at least 1"),
        ("mesh:99999999999x2", Code::TooLarge, "4096"),
        ("mesh:65536x65536", Code::TooLarge, "4096"),
        ("hypercube:4000000000", Code::TooLarge, "12"),
        ("fc:4096", Code::TooLarge, "links"),
        ("switch:99999999999", Code::TooLarge, "4096"),
        ("mesh:2x2@", Code::BadSpec, "@100/20ns"),
        ("mesh:2x2@fast", Code::BadSpec, "@100/20ns"),
        ("mesh:2x2@-1", Code::BadSpec, "@100/20ns"),
        ("mesh:2x2@0", Code::BadSize, "link rate 0"),
        ("mesh:2x2@99999999999", Code::BadSize, "link rate"),
        ("mesh:2x2@1/20", Code::BadSize, "time '20'"),
        ("dgx-a100", Code::BadSpec, "for example dgx-a100:2"),
        ("dgx-h100:2x8", Code::BadSpec, "for example dgx-h100:2"),
        ("dgx-h100:0", Code::BadSpec, "needs at least 1 box"),
        ("dgx-a100:513", Code::TooLarge, "at most 512 boxes of 8 ranks, 4096 ranks in all"),
        ("dgx-h100:99999999999", Code::TooLarge, "at most 512 boxes"),
        ("mi250:257", Code::TooLarge, "at most 256 boxes of 16 ranks"),
        ("mi300x:4000000000", Code::TooLarge, "at most 512 boxes"),
        (
            "dgx-h100:2@400",
            Code::BadSpec,
            "fabric 'dgx-h100:2@400': 1 rate for 2 kinds of links (nvlink, rail); write one for each, joined by +, \
                 for example @370.8+48",
        ),
        ("dgx-a100:1@300+25", Code::BadSpec, "2 rates for 1 kind of links (nvlink); write one, for example @240"),
        ("mi250:2@1+2+3", Code::BadSpec, "3 rates for 2 kinds of links (xgmi, ib)"),
        ("dgx-h100:2:rwa", Code::UnknownName, "dgx-h100 has no option 'rwa'; did you mean 'raw'?"),
        ("dgx-h100:2:raw@450+50", Code::BadSpec, "raw and @ both give rates"),
        ("dgx-h100:2:nics=3", Code::BadSpec, "3 NICs do not divide the 8 GPUs of a box"),
        ("dgx-a100:2:nics=0", Code::BadSpec, "nics=0; expected a whole number from 1"),
        ("dgx-h100:1:nics=4", Code::BadSpec, "a box by itself has no network"),
        ("mi300x:1:rails=leaf-spine", Code::BadSpec, "a box by itself has no network"),
        ("dgx-h100:2:ratio=2", Code::BadSpec, "ratio= needs rails=leaf-spine"),
        ("dgx-h100:48:rails=leaf-spine,ratio=3", Code::BadSpec, "ratio=3 does not divide the 32 cables down of a leaf"),
        ("dgx-h100:64:rails=leaf-spine,drop=0-1,ratio=2", Code::BadSpec, "no link from 0 to 1"),
        ("gb200-nvl72:57", Code::TooLarge, "at most 56 boxes of 72 ranks"),
        ("dgx-v100:2", Code::BadSpec, "for example dgx-v100"),
        ("dgx-spark:ring2", Code::BadSpec, "for example dgx-spark:pair"),
        ("dgx-spark:star", Code::BadSpec, "for example dgx-spark:pair"),
        ("dgx-spark:ring99999", Code::TooLarge, "4096"),
        ("fat-tree:3", Code::BadSpec, "an even number of ports"),
        ("fat-tree:0", Code::BadSpec, "an even number of ports"),
        ("fat-tree:26", Code::TooLarge, "has 4394 ranks"),
        ("fat-tree:4294967294", Code::TooLarge, "ranks"),
        ("fat-tree:4:ratio=2", Code::BadSpec, "ratio= is of leaves below spines"),
        ("fat-tree:4x3:ratio=2", Code::BadSpec, "ratio=2 divides"),
        ("fat-tree:4x99999999999", Code::TooLarge, "ranks"),
        ("fat-tree:4@1+2", Code::BadSpec, "2 rates for 3 kinds of links (host, aggregation, core)"),
        ("dragonfly:2", Code::BadSpec, "for example dragonfly:1,2,1"),
        ("dragonfly:2x4x2", Code::BadSpec, "for example dragonfly:1,2,1"),
        ("dragonfly:0,4,2", Code::BadSpec, "at least a rank a router"),
        ("dragonfly:2,0,2", Code::BadSpec, "two groups"),
        ("dragonfly:2,4,2,groups=10", Code::BadSpec, "at most A H + 1 = 9 groups"),
        ("dragonfly:6,12,6", Code::TooLarge, "5256 ranks"),
        ("dragonfly:4294967295,4294967295,4294967295", Code::TooLarge, "ranks"),
        ("slimfly:9", Code::BadSpec, "an odd prime"),
        ("slimfly:2", Code::BadSpec, "an odd prime"),
        ("slimfly:4294967295", Code::BadSpec, "an odd prime"),
        ("slimfly:17", Code::TooLarge, "ranks"),
        ("jellyfish:8,5,2", Code::BadSpec, "for example jellyfish:8,5,2,1"),
        ("jellyfish:8,12,2,1", Code::BadSpec, "from 1 to SWITCHES - 1 ports"),
        ("jellyfish:8,2,2,1", Code::BadSpec, "from 1 to SWITCHES - 1 ports"),
        ("jellyfish:8,2,1,1", Code::BadSpec, "disconnected"),
        ("jellyfish:4294967295,5,2,1", Code::TooLarge, "ranks"),
        ("hammingmesh:2x2", Code::BadSpec, "for example hammingmesh:2x2x2x2"),
        ("hammingmesh:0x2x2x2", Code::BadSpec, "at least one accelerator"),
        ("hammingmesh:99999x99999x99999x99999", Code::TooLarge, "ranks"),
        ("tt-galaxy:8x4", Code::BadSpec, "for example tt-galaxy"),
        ("tt-galaxy:raw@50", Code::BadSpec, "raw and @ both give rates"),
        ("fugaku:4x4", Code::BadSpec, "for example fugaku:4x4x4"),
        ("tpu-v5p:16x16x24", Code::TooLarge, "of which 4096 are supported"),
        ("tpu-v4:4x4x4:twisted", Code::BadSpec, "n x n x 2n or n x 2n x 2n chips"),
        ("tpu-v4:4x8x16:twisted", Code::BadSpec, "n x n x 2n or n x 2n x 2n chips"),
        ("tpu-v4:2x4x4:twisted", Code::BadSpec, "n x n x 2n or n x 2n x 2n chips"),
        ("tpu-v4:4x4x4@1+2", Code::BadSpec, "2 rates for 3 dimension(s)"),
        ("tpu-v4:4x4", Code::BadSpec, "for example tpu-v4:4x4x8"),
        ("tpu-v4:4x4x6", Code::BadSpec, "sizes that are all multiples of 4"),
        ("tpu-v4:2x4x8", Code::BadSpec, "1, 2 and 4 with at most one 1"),
        ("tpu-v4:1x1x4", Code::BadSpec, "trays of 2x2x1"),
        ("tpu-v4:3x4x4", Code::BadSpec, "a slice has sizes"),
        ("tpu-v4:0x4x4", Code::BadSpec, "a slice has sizes"),
        ("tpu-v4:16x16x20", Code::TooLarge, "a pod has 4096 chips"),
        ("tpu-v4:4294967292x4294967292x4", Code::TooLarge, "a pod has 4096 chips"),
    ];

    #[test]
    fn refusals_say_what_is_wrong() {
        for &(spec, code, why) in REFUSED {
            let error = Fabric::parse(spec).unwrap_err();
            assert_eq!(error.code, code, "{spec}: {error}");
            assert!(error.message.contains(why), "{spec}: {error}");
        }
        assert!(Fabric::parse(&format!("mesh:{}", "1x".repeat(9000))).unwrap_err().message.len() < 200);
    }
}

//! Fabric specifications: `KIND[:SIZE][:OPTION...][@RATE[/LATENCY[/ENERGY]][+...]][,DEGRADATION...]`, of files with
//! `*BOXES@rails[:RATE[/LATENCY[/ENERGY]]]` before the first comma.

use super::aries::{self, Aries, Items};
use super::degrade::degrade;
use super::import::JoinedBoxes;
use super::link::LinkParameters;
use super::view::parse_group;
use super::{Dimension, DimensionShape, Fabric, Link, Shape};
use super::{ace, bigraph, clos, dgx, dgx1v, expander, file, grid, hamming, mi, packages, spark, switch, tpu, wafer};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::options::{Opt, Options};
use antiphon_base::parameter::Domain;
use antiphon_base::registry::Registry;
use antiphon_base::units::{clip, parse_length};

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
pub const PRESETS: [FabricPreset; 34] = [
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
    packages::PACKAGES,
    wafer::WAFER,
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
    /// Rates, latencies and energies of links.
    pub parameters: &'a [LinkParameters],
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

    /// The length that an option gives, in micrometres.
    pub fn length_um(&self, key: &str) -> Result<Option<u32>> {
        self.options.given(key).map(|length| parse_length(length.text())).transpose()
    }

    /// Whether `@` gives a rate, and not latencies or energies alone.
    pub fn gives_rates(&self) -> bool {
        self.parameters.iter().any(|given| given.rate.is_some())
    }

    /// What `@` gives, or what holds where it leaves something out.
    pub fn parameters_or(&self, own: LinkParameters) -> Vec<LinkParameters> {
        if self.parameters.is_empty() { vec![own] } else { self.parameters.iter().map(|given| given.or(own)).collect() }
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
            self.parameters[kind % count].or(LinkParameters::of(link)).set(link);
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
    /// Kinds are in [`PRESETS`]. `@RATE[/LATENCY[/ENERGY]]` (GB/s = 1e9 bytes per second, a time with unit, and the
    /// energy of a bit in pJ), or `@/LATENCY`, is for links without their own; on a product of dimensions there may be
    /// one for each dimension, joined by `+`, in the order of the sizes: `torus:4x4x4@200/90ns+25/500ns+25/500ns`. On a machine they replace its own, one
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

/// Splits `KIND:SIZE@RATE/LATENCY+...` at the last `@`. A path may hold one: what does not start as a
/// rate then belongs to the path.
fn split_parameters(head: &str) -> Result<(&str, Vec<LinkParameters>)> {
    let Some((base, text)) = head.rsplit_once('@') else { return Ok((head, vec![])) };
    if head.starts_with("file:") {
        return Ok(LinkParameters::parse(text).map_or((head, vec![]), |one| (base, vec![one])));
    }
    Ok((base, text.split('+').map(LinkParameters::parse).collect::<Result<_>>()?))
}

/// Splits `FILE*BOXES@rails[:RATE...]` where the boxes begin.
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
    let rail = after.strip_prefix(':').map(LinkParameters::parse).transpose()?;
    Ok((file, Some(JoinedBoxes { count, rail })))
}

/// Sets the parameters of links that have none: one for all, or one for each dimension of a product.
fn set_parameters(fabric: &mut Fabric, parameters: &[LinkParameters]) -> Result<()> {
    let set = |link: &mut Link, given| LinkParameters::of(link).or(given).set(link);
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
                let LinkParameters { rate, latency, energy } = of(number);
                // To the switch, and from it.
                let hops = if dimension.shape == DimensionShape::Switch { 2 } else { 1 };
                let latency = dimension.latency.or(latency.map(|latency| latency.saturating_mul(hops)));
                let rate = dimension.link_rate().or(rate);
                let energy = dimension.energy.or(energy);
                *dimension = Dimension { latency, energy, ..dimension.with_link_rate(rate) };
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
fn intact(spec: &str, base: &str, parameters: &[LinkParameters], boxes: Option<JoinedBoxes>) -> Result<Fabric> {
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
    parameters: &[LinkParameters],
    boxes: Option<JoinedBoxes>,
) -> Result<Fabric> {
    let place = |error: Error| error.at(format_args!("fabric '{spec}'"));
    file::read(spec, path, boxes, |fabric| set_parameters(fabric, parameters).map_err(place))
}

/// `fabric` with parameters for the links that have none.
fn with_parameters(spec: &str, mut fabric: Fabric, parameters: &[LinkParameters]) -> Result<Fabric> {
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
mod tests;

//! Graphs in DOT (graphviz.org/doc/info/lang.html), those that `export --format dot` writes among them. Read is what says which
//! nodes are ranks and what links carry; how a graph is drawn is not.

use super::{FabricDraft, SaidRate, rates};
use crate::fabric::{Link, MAX_LINKS, MAX_NODES, NodeId, link};
use antiphon_base::error::{Code, Error, Result};
use antiphon_base::units::clip;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Most subgraphs within each other.
const MAX_DEPTH: usize = 32;
/// Most bytes of an attribute, which all nodes or edges behind it may have.
const MAX_VALUE: usize = 256;
/// Attributes that say whether a node is a rank, and by what word, or where it is.
const OF_NODES: [&str; 6] = ["rank", "comment", "type", "kind", "role", "pos"];
const RANKS: [&str; 8] = ["rank", "gpu", "npu", "xpu", "accelerator", "host", "endpoint", "terminal"];
const FORWARD: [&str; 6] = ["switch", "router", "nic", "cpu", "bridge", "hub"];
/// Attributes that say what a link is.
const OF_EDGES: [&str; 11] = [
    "dimension",
    "rate_gb_per_s",
    "latency_ns",
    "speed",
    "energy_pj_per_bit",
    "length_mm",
    "rate",
    "bandwidth",
    "latency",
    "delay",
    "dir",
];
/// Attributes that only say how something is drawn, of which nobody need be told that they are not read.
const DRAWN: [&str; 17] = [
    "shape",
    "style",
    "label",
    "xlabel",
    "color",
    "fillcolor",
    "fontname",
    "fontsize",
    "fontcolor",
    "width",
    "height",
    "penwidth",
    "arrowhead",
    "arrowtail",
    "arrowsize",
    "tooltip",
    "comment",
];

/// Whether a text begins as one of this format.
pub fn recognises(text: &str) -> bool {
    let text = blank(text);
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let after = text[word.len()..].chars().next();
    ["strict", "graph", "digraph"].iter().any(|known| known.eq_ignore_ascii_case(word))
        && after.is_none_or(|c| c.is_whitespace() || ['{', '"', '/'].contains(&c))
}

/// Reads a text. O(nodes + edges).
pub fn read(text: &str) -> Result<FabricDraft> {
    let mut parser = Parser::new(text)?;
    parser.graph()?;
    parser.finish()
}

/// A text without the spaces and comments that it begins with.
fn blank(mut text: &str) -> &str {
    let mut is_first = true;
    loop {
        let next = text.trim_start();
        // What a preprocessor leaves: lines that begin with #.
        let is_line = is_first || text[..text.len() - next.len()].contains('\n');
        is_first = false;
        text = if next.starts_with("//") || (is_line && next.starts_with('#')) {
            next.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(comment) = next.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            return next;
        };
        is_first |= !text.is_empty() && next.len() > text.len() && next[..next.len() - text.len()].ends_with('\n');
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'t> {
    /// A name or a value; words in quotes are no keywords.
    Id(Cow<'t, str>, bool),
    Mark(char),
    /// `->` or `--`.
    Edge(bool),
    End,
}

/// Attributes that are read, by name.
type DotAttributes = BTreeMap<&'static str, String>;

/// What holds for the nodes and edges that follow in a subgraph.
#[derive(Clone, Default)]
struct Scope {
    nodes: DotAttributes,
    edges: DotAttributes,
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    token: Token<'t>,
    is_directed: bool,
    is_strict: bool,
    nodes: Vec<(String, DotAttributes)>,
    ids: HashMap<String, usize>,
    /// Ends of links, and which of `kinds` they are.
    links: Vec<(usize, usize, usize)>,
    kinds: Vec<(Link, SaidRate)>,
    pairs: HashSet<(usize, usize)>,
    ignored: BTreeSet<String>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Parser<'t>> {
        let mut parser = Parser {
            text,
            rest: text,
            token: Token::End,
            is_directed: false,
            is_strict: false,
            nodes: vec![],
            ids: HashMap::new(),
            links: vec![],
            kinds: vec![],
            pairs: HashSet::new(),
            ignored: BTreeSet::new(),
        };
        parser.advance()?;
        Ok(parser)
    }

    fn wrong(&self, what: impl AsRef<str>) -> Error {
        self.error(Code::BadFile, what)
    }

    fn error(&self, code: Code, what: impl AsRef<str>) -> Error {
        let read = &self.text.as_bytes()[..self.text.len() - self.rest.len()];
        Error::new(code, what).at(format_args!("line {}", 1 + read.iter().filter(|&&b| b == b'\n').count()))
    }

    /// Takes the next token.
    fn advance(&mut self) -> Result<Token<'t>> {
        self.rest = blank(self.rest);
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
        let next = match self.rest.chars().next() {
            None => Token::End,
            Some('"') => {
                let (text, length) = quoted(self.rest).ok_or_else(|| self.wrong("a quote is not closed"))?;
                self.rest = &self.rest[length..];
                Token::Id(Cow::Owned(text), true)
            }
            Some('<') => {
                let mut open = 0;
                let end = self.rest.char_indices().find(|(_, c)| {
                    open += match c {
                        '<' => 1,
                        '>' => -1,
                        _ => 0,
                    };
                    open == 0
                });
                let (end, _) = end.ok_or_else(|| self.wrong("a < is not closed"))?;
                let (text, rest) = self.rest.split_at(end + 1);
                self.rest = rest;
                Token::Id(Cow::Borrowed(text), true)
            }
            Some('-') if self.rest.starts_with("->") || self.rest.starts_with("--") => {
                let is_directed = self.rest.starts_with("->");
                self.rest = &self.rest[2..];
                Token::Edge(is_directed)
            }
            Some(c) if is_word(c) || c == '.' || c == '-' => {
                let is_number = c.is_ascii_digit() || c == '.' || c == '-';
                let more = |c: char| if is_number { c.is_ascii_digit() || c == '.' } else { is_word(c) };
                let tail = &self.rest[c.len_utf8()..];
                let length = c.len_utf8() + tail.find(|c| !more(c)).unwrap_or(tail.len());
                let (text, rest) = self.rest.split_at(length);
                if is_number && text.parse::<f64>().is_err() || rest.starts_with(is_word) {
                    return Err(
                        self.wrong(format!("'{}...' is neither a name nor a number; put it in quotes", clip(text)))
                    );
                }
                self.rest = rest;
                Token::Id(Cow::Borrowed(text), false)
            }
            Some(c) if "{}[]=;,:+".contains(c) => {
                self.rest = &self.rest[1..];
                Token::Mark(c)
            }
            Some(c) => return Err(self.wrong(format!("'{}' is not expected", c.escape_default()))),
        };
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn is(&self, mark: char) -> bool {
        self.token == Token::Mark(mark)
    }

    /// Takes a mark if it is next.
    fn took(&mut self, mark: char) -> Result<bool> {
        let is = self.is(mark);
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn expect(&mut self, mark: char) -> Result<()> {
        if self.took(mark)? { Ok(()) } else { Err(self.wrong(format!("{mark} is expected"))) }
    }

    /// Whether a keyword is next.
    fn is_keyword(&self, word: &str) -> bool {
        matches!(&self.token, Token::Id(text, false) if text.eq_ignore_ascii_case(word))
    }

    /// A name or a value; parts in quotes may be joined by `+`.
    fn id(&mut self, what: &str) -> Result<String> {
        let Token::Id(text, is_quoted) = self.advance()? else { return Err(self.wrong(format!("{what} is expected"))) };
        let mut text = text.into_owned();
        while is_quoted && self.took('+')? {
            match self.advance()? {
                Token::Id(more, true) => text.push_str(&more),
                _ => return Err(self.wrong("+ joins parts in quotes")),
            }
        }
        Ok(text)
    }

    fn graph(&mut self) -> Result<()> {
        self.is_strict = self.is_keyword("strict");
        if self.is_strict {
            self.advance()?;
        }
        self.is_directed = self.is_keyword("digraph");
        if !self.is_directed && !self.is_keyword("graph") {
            return Err(self.wrong("graph or digraph is expected"));
        }
        self.advance()?;
        if !self.is('{') {
            self.id("the name of the graph or {")?;
        }
        self.expect('{')?;
        self.statements(Scope::default(), 0)?;
        if self.token == Token::End {
            Ok(())
        } else {
            Err(self.wrong("something follows the graph; one graph is read"))
        }
    }

    /// The statements up to a closing brace; gives the nodes that they name.
    fn statements(&mut self, mut scope: Scope, depth: usize) -> Result<Vec<usize>> {
        if depth > MAX_DEPTH {
            return Err(self.error(Code::TooLarge, format!("more than {MAX_DEPTH} subgraphs within each other")));
        }
        // Once each, in their order.
        let (mut named, mut seen) = (vec![], HashSet::new());
        loop {
            if self.took('}')? {
                return Ok(named);
            }
            let default = ["graph", "node", "edge"].into_iter().find(|word| self.is_keyword(word));
            if let Some(of) = default {
                self.advance()?;
                match of {
                    "node" => self.attributes(&OF_NODES, &mut scope.nodes)?,
                    "edge" => self.attributes(&OF_EDGES, &mut scope.edges)?,
                    _ => self.attributes(&[], &mut DotAttributes::new())?,
                };
            } else {
                named.extend(self.statement(&scope, depth)?.into_iter().filter(|node| seen.insert(*node)));
            }
            self.took(';')?;
        }
    }

    /// A node, edges, a subgraph, or an attribute of the graph; gives the nodes that it names.
    fn statement(&mut self, scope: &Scope, depth: usize) -> Result<Vec<usize>> {
        let is_group = self.is('{') || self.is_keyword("subgraph");
        let mut chain = vec![];
        if is_group {
            chain.push(self.end(scope, depth)?);
        } else {
            let name = self.id("a node, an edge or }")?;
            if self.took('=')? {
                self.id("a value")?;
                return Ok(vec![]);
            }
            chain.push(vec![self.node(name, scope)?]);
        }
        while let Token::Edge(is_directed) = self.token {
            if is_directed != self.is_directed {
                let (kind, mark) = if self.is_directed { ("digraph", "->") } else { ("graph", "--") };
                return Err(self.wrong(format!("edges of a {kind} are written {mark}")));
            }
            self.advance()?;
            chain.push(self.end(scope, depth)?);
            if chain.len() > MAX_NODES {
                return Err(self.error(Code::TooLarge, format!("more than {MAX_NODES} ends of edges in one statement")));
            }
        }
        if let [nodes] = &chain[..] {
            if !is_group && let [node] = nodes[..] {
                let mut own = std::mem::take(&mut self.nodes[node].1);
                self.attributes(&OF_NODES, &mut own)?;
                self.nodes[node].1 = own;
            }
            return Ok(chain.concat());
        }
        let mut own = scope.edges.clone();
        self.attributes(&OF_EDGES, &mut own)?;
        for pair in chain.windows(2) {
            self.edges(&pair[0], &pair[1], &own)?;
        }
        Ok(chain.concat())
    }

    /// What an edge ends at: a node, or all nodes of a subgraph.
    fn end(&mut self, scope: &Scope, depth: usize) -> Result<Vec<usize>> {
        if self.is_keyword("subgraph") {
            self.advance()?;
            if !self.is('{') {
                self.id("the name of a subgraph or {")?;
            }
        }
        if self.took('{')? {
            return self.statements(scope.clone(), depth + 1);
        }
        let name = self.id("a node")?;
        Ok(vec![self.node(name, scope)?])
    }

    /// The node of a name, which is new where it was not named before. Where on it an edge is drawn is skipped.
    fn node(&mut self, name: String, scope: &Scope) -> Result<usize> {
        while self.took(':')? {
            self.id("a port")?;
        }
        if let Some(&node) = self.ids.get(&name) {
            return Ok(node);
        }
        if self.nodes.len() == MAX_NODES {
            return Err(self.error(Code::TooLarge, format!("more than {MAX_NODES} nodes")));
        }
        self.ids.insert(name.clone(), self.nodes.len());
        self.nodes.push((name, scope.nodes.clone()));
        Ok(self.nodes.len() - 1)
    }

    /// Reads lists of attributes, of which those with known names are kept.
    fn attributes(&mut self, known: &[&'static str], kept: &mut DotAttributes) -> Result<()> {
        while self.took('[')? {
            while !self.took(']')? {
                let name = self.id("an attribute or ]")?;
                let value = if self.took('=')? { self.id("a value")? } else { "true".into() };
                match known.iter().find(|known| **known == name) {
                    Some(known) if value.len() <= MAX_VALUE => _ = kept.insert(known, value),
                    Some(&"comment") => {}
                    Some(known) => return Err(self.wrong(format!("{known} has more than {MAX_VALUE} bytes"))),
                    None if DRAWN.contains(&name.as_str()) || known.is_empty() => {}
                    None if self.ignored.len() < 8 => _ = self.ignored.insert(clip(&name)),
                    None => {}
                }
                if !self.took(',')? {
                    self.took(';')?;
                }
            }
        }
        Ok(())
    }

    /// Adds links from all of some nodes to all of others.
    fn edges(&mut self, ones: &[usize], others: &[usize], own: &DotAttributes) -> Result<()> {
        let ways: &[bool] = match own.get("dir").map(String::as_str) {
            _ if !self.is_directed => &[true, false],
            None | Some("forward") => &[true],
            Some("back") => &[false],
            Some("both") => &[true, false],
            Some(other) => {
                return Err(self.wrong(format!("dir is '{}'; an edge is forward, back or both", clip(other))));
            }
        };
        let count = ones.len().saturating_mul(others.len()).saturating_mul(ways.len());
        if self.links.len().saturating_add(count) > MAX_LINKS {
            return Err(self.error(Code::TooLarge, format!("more than {MAX_LINKS} directed links")));
        }
        let kind = kind(own).map_err(|error| self.error(error.code, error.message))?;
        self.kinds.push(kind);
        for (&one, &other) in ones.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
            for &is_forward in ways {
                let (from, to) = if is_forward { (one, other) } else { (other, one) };
                if from == to {
                    return Err(self.wrong(format!("an edge joins '{}' to itself", clip(&self.nodes[from].0))));
                }
                if self.is_strict && !self.pairs.insert((from, to)) {
                    let [from, to] = [from, to].map(|node| clip(&self.nodes[node].0));
                    return Err(self.wrong(format!("a second edge from '{from}' to '{to}' in a strict graph")));
                }
                self.links.push((from, to, self.kinds.len() - 1));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<FabricDraft> {
        let Parser { nodes, links, kinds, ignored, .. } = self;
        let mut draft = FabricDraft::default();
        let numbers = ranks(&nodes, &mut draft)?;
        for ((name, attributes), number) in nodes.iter().zip(numbers) {
            let node = draft.node(name, number.is_some())? as usize;
            if let Some(Some(number)) = number {
                draft.nodes[node].rank = Some(number);
            }
            // As drawings have them: to the right, and upwards.
            let place: Option<Vec<f64>> = attributes
                .get("pos")
                .map(|text| text.trim_end_matches('!').split(',').map_while(|part| part.trim().parse().ok()).collect());
            if let Some([x, y]) = place.as_deref()
                && x.is_finite()
                && y.is_finite()
            {
                draft.nodes[node].coords = vec![-y, *x];
            }
        }
        for (from, to, kind) in links {
            let (link, said) = &kinds[kind];
            draft.add(Link { from: from as NodeId, to: to as NodeId, ..link.clone() }, *said)?;
        }
        if !ignored.is_empty() {
            draft.note(format!("attributes that are not read: {}", ignored.into_iter().collect::<Vec<_>>().join(", ")));
        }
        Ok(draft)
    }
}

/// The text of a string in quotes that a text begins with, and its length with them.
fn quoted(text: &str) -> Option<(String, usize)> {
    let (mut found, mut chars) = (String::new(), text.char_indices().skip(1).peekable());
    while let Some((at, c)) = chars.next() {
        match (c, chars.peek().map(|(_, next)| *next)) {
            ('"', _) => return Some((found, at + 1)),
            ('\\', Some(next @ ('"' | '\\'))) => {
                found.push(next);
                chars.next();
            }
            ('\\', Some('\n')) => _ = chars.next(),
            _ => found.push(c),
        }
    }
    None
}

/// Which nodes are ranks, and with which numbers, where the file has them; otherwise they are numbered in their order.
fn ranks(nodes: &[(String, DotAttributes)], draft: &mut FabricDraft) -> Result<Vec<Option<Option<u32>>>> {
    let wrong = |node: &str, what: String| Error::new(Code::BadFile, what).at(format_args!("node '{}'", clip(node)));
    let mut said = vec![];
    for (name, attributes) in nodes {
        let number =
            attributes.get("comment").and_then(|text| text.strip_prefix("rank ")).and_then(|text| text.parse().ok());
        let word =
            ["type", "kind", "role"].iter().find_map(|key| Some((key, attributes.get(*key)?.to_ascii_lowercase())));
        said.push(match (attributes.get("rank").map(String::as_str), word) {
            (Some("true"), _) => Some(Some(None)),
            (Some("false" | "-1"), _) => Some(None),
            (Some(text), _) => {
                let number = text
                    .parse()
                    .map_err(|_| wrong(name, format!("rank is '{}', expected a number, true or false", clip(text))))?;
                Some(Some(Some(number)))
            }
            _ if number.is_some() => Some(Some(number)),
            (None, Some((_, word))) if RANKS.contains(&word.as_str()) => Some(Some(None)),
            (None, Some((_, word))) if FORWARD.contains(&word.as_str()) => Some(None),
            (None, Some((key, word))) => {
                let known = [&RANKS[..], &FORWARD[..]].concat().join(", ");
                return Err(wrong(
                    name,
                    format!("{key} is '{}'; known: {known}; or write rank=true or rank=false", clip(&word)),
                ));
            }
            (None, None) => None,
        });
    }
    let numbered = said.iter().filter(|said| matches!(said, Some(Some(Some(_))))).count();
    let told = said.iter().filter(|said| matches!(said, Some(Some(_)))).count();
    if numbered > 0 {
        // What has no number forwards, as in the files written here.
        let mut numbers: Vec<u32> = said.iter().filter_map(|said| (*said)??).collect();
        numbers.sort_unstable();
        if told != numbered || !numbers.iter().copied().eq(0..told as u32) {
            let what = format!("ranks are not numbered 0 to {}, each once", told.max(1) - 1);
            return Err(Error::new(Code::BadFile, what));
        }
        return Ok(said.into_iter().map(Option::flatten).collect());
    }
    if let Some(at) = said.iter().position(Option::is_none) {
        if told > 0 {
            return Err(wrong(
                &nodes[at].0,
                "nothing says whether it is a rank, as with others; write rank=true or rank=false".into(),
            ));
        }
        if said.iter().all(Option::is_none) {
            draft.note(format!(
                "no node says whether it is a rank: all {} are; rank=false makes one that only forwards",
                said.len()
            ));
        }
    }
    Ok(said.into_iter().map(|said| said.unwrap_or(Some(None))).collect())
}

/// What the attributes of an edge say of its links.
fn kind(own: &DotAttributes) -> Result<(Link, SaidRate)> {
    let number = |key: &'static str, of: fn(f64) -> Result<u64>| {
        let Some(text) = own.get(key) else { return Ok(None) };
        let number = text
            .trim()
            .parse()
            .map_err(|_| Error::new(Code::BadFile, format!("{key} is '{}', expected a number", clip(text))))?;
        of(number).map(Some)
    };
    // A quantity without its unit could be anything.
    let with_unit = |keys: [&'static str; 2], plain: &str, example: &str, of: fn(&str) -> Option<f64>| {
        let Some((key, text)) = keys.iter().find_map(|key| Some((key, own.get(*key)?))) else { return Ok(None) };
        let what = || format!("{key} is '{}'; write for example {example}, with the unit, or {plain}", clip(text));
        of(text).map(Some).ok_or_else(|| Error::new(Code::BadFile, what()))
    };
    let mut link = Link::new(0, 0, own.get("dimension").map_or("x", String::as_str));
    let rate = number("rate_gb_per_s", |rate| link::rate(rate).map(|rate| rate.0))?;
    let given = with_unit(["rate", "bandwidth"], "rate_gb_per_s", "400Gbps or 50GB/s", rates::gb_per_s)?;
    let said = match (rate, given) {
        (Some(rate), _) => SaidRate::Rate(rate as f64 / 1e9),
        (None, Some(rate)) => SaidRate::Rate(rate),
        (None, None) => SaidRate::Nothing(None, "edges without a rate"),
    };
    let latency = number("latency_ns", link::latency)?;
    let given = with_unit(["latency", "delay"], "latency_ns", "500ns", rates::nanoseconds)?;
    link.latency = match latency {
        Some(latency) => Some(latency),
        None => given.map(link::latency).transpose()?,
    };
    if let Some(speed) = number("speed", |speed| link::permille(speed).map(u64::from))? {
        link.speed_permille = speed as u32;
    }
    link.energy = number("energy_pj_per_bit", link::energy)?;
    link.length_um = number("length_mm", |length| link::length(length).map(u64::from))?.map(|length| length as u32);
    Ok((link, said))
}

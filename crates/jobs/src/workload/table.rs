//! Reads workload tables: CSV with one row for each layer and a header row that names the columns.

use super::{Convolution, Counts, Demand, Layer, MAX_LAYERS, Passes, Volume, Work, Workload};
use antiphon_base::error::{Code, Error, Result, nearest};
use antiphon_base::units::{MAX_BYTES, PICOS_PER_NANO, clip};
use antiphon_base::watch::interruptible;
use antiphon_model::collective::Kind;
use csv::StringRecord;
use std::fmt::Display;

/// Largest value of one dimension of a shape.
const MAX_DIMENSION: u64 = 1 << 24;
/// Largest number of weights, elements or operations in one layer.
const MAX_COUNT: u64 = 1 << 50;
/// Longest measured time of one pass: about 11 days.
const MAX_NANOS: f64 = 1e15;
/// The last stream of computations.
const MAX_STREAM: u64 = 15;

/// A form of table: its required columns, and the optional ones.
struct Form {
    name: &'static str,
    /// The column by which the form is recognised.
    mark: &'static str,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    work: fn(&Row) -> Result<(Work, u64)>,
}

const FORMS: [Form; 3] = [
    Form {
        name: "shapes",
        mark: "ifmap_h",
        required: &["layer", "ifmap_h", "ifmap_w", "filter_h", "filter_w", "channels", "num_filters", "stride"],
        optional: &["params", "bucket", "consumer", "stream"],
        work: shape,
    },
    Form {
        name: "totals",
        mark: "macs",
        required: &["layer", "params", "macs", "input_elements", "output_elements"],
        optional: &["bucket", "fwd_comm", "ig_comm", "consumer", "stream"],
        work: totals,
    },
    Form {
        name: "measured",
        mark: "fwd_compute_ns",
        required: &[
            "layer",
            "fwd_compute_ns",
            "fwd_comm",
            "fwd_bytes",
            "ig_compute_ns",
            "ig_comm",
            "ig_bytes",
            "wg_compute_ns",
            "wg_comm",
            "wg_bytes",
        ],
        // The last two are columns of ASTRA-sim's tables. Public material gives no unit of the first;
        // neither is used.
        optional: &["bucket", "consumer", "stream", "update_delay", "policy"],
        work: measured,
    },
];

/// Other names of columns: those of SCALE-Sim and of short tables.
const ALIASES: [(&str, &str); 13] = [
    ("name", "layer"),
    ("layer_name", "layer"),
    ("ifmap_height", "ifmap_h"),
    ("ifmap_width", "ifmap_w"),
    ("filter_height", "filter_h"),
    ("filter_width", "filter_w"),
    ("num_filter", "num_filters"),
    ("strides", "stride"),
    ("inel", "input_elements"),
    ("outel", "output_elements"),
    ("group", "bucket"),
    ("parameters", "params"),
    ("operations", "macs"),
];

pub fn read(name: &str, text: &str) -> Result<Workload> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut records = reader.records();
    let header = match records.next() {
        Some(header) => header.map_err(malformed)?,
        None => return bad("line 1: the table is empty; it needs a header row that names the columns"),
    };
    let first = line_of(text, &header);
    let columns = Columns::of(&header, first)?;
    // Layers that say which later one needs their outputs: number, row and name.
    let mut consumers: Vec<(usize, u64, String)> = Vec::new();
    let (mut layers, mut weights) = (Vec::new(), 0);
    for record in interruptible(records) {
        let record = record.map_err(malformed)?;
        // SCALE-Sim's tables end their rows with a comma.
        if record.iter().all(str::is_empty) {
            continue;
        }
        let row = Row { columns: &columns, line: line_of(text, &record), record };
        if layers.len() == MAX_LAYERS {
            return Err(Error::new(Code::TooLarge, format!("line {}: more than {MAX_LAYERS} layers", row.line)));
        }
        let layer = row.layer()?;
        if !row.cell("consumer").is_empty() {
            consumers.push((layers.len(), row.line, clip(row.cell("consumer"))));
        }
        weights += layer.params;
        if weights > MAX_COUNT {
            return bad(format!("line {}: the layers up to here have more than 2^50 weights", row.line));
        }
        layers.push(layer);
    }
    if layers.is_empty() {
        return bad(format!("line {first}: no layers below the header; add a row for each"));
    }
    for (index, line, name) in consumers {
        let Some(distance) = layers[index + 1..].iter().position(|layer| layer.name == name) else {
            return bad(format!("line {line}, column 'consumer': no later layer is called '{name}'"));
        };
        layers[index].consumer = Some((index + 1 + distance) as u32);
    }
    let says_exchanges =
        ["fwd_comm", "ig_comm"].iter().all(|wanted| columns.places.iter().any(|(_, name)| name == wanted));
    Ok(Workload { name: name.into(), layers, says_exchanges })
}

fn bad<T>(what: impl AsRef<str>) -> Result<T> {
    Err(Error::new(Code::BadFile, what))
}

/// The line on which a record starts: csv's position is before the comments and empty lines that it skipped.
fn line_of(text: &str, record: &StringRecord) -> u64 {
    let Some(position) = record.position() else { return 1 };
    let lines = text[position.byte() as usize..].lines();
    position.line() + lines.take_while(|line| line.is_empty() || line.starts_with('#')).count() as u64
}

fn malformed(error: csv::Error) -> Error {
    Error::new(Code::BadFile, format!("not a CSV table: {error}"))
}

/// Where the columns of a form are in a table.
struct Columns {
    form: &'static Form,
    /// Number and name of every named column.
    places: Vec<(usize, &'static str)>,
    width: usize,
}

impl Columns {
    fn of(header: &StringRecord, line: u64) -> Result<Columns> {
        if header.len() == 1
            && let Some(other) = [';', '\t'].into_iter().find(|other| header[0].contains(*other))
        {
            return bad(format!("line {line}: the columns are separated by {other:?}; use commas"));
        }
        let names: Vec<String> = header.iter().map(canonical).collect();
        let Some(form) = FORMS.iter().find(|form| names.iter().any(|name| name == form.mark)) else {
            let forms = FORMS.each_ref().map(|form| format!("{} ({})", form.required.join(","), form.name));
            return bad(format!("line {line}: the header is of no known form; expected {}", forms.join(" or ")));
        };
        let known = || form.required.iter().chain(form.optional).copied();
        let mut places: Vec<(usize, &'static str)> = Vec::new();
        for (place, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let Some(known_name) = known().find(|known| known == name) else {
                let (hint, list) = (nearest(name, known()), known().collect::<Vec<_>>().join(", "));
                return bad(format!(
                    "line {line}: unknown column '{}'{hint}; {} tables have {list}",
                    clip(name),
                    form.name
                ));
            };
            if places.iter().any(|(_, other)| *other == known_name) {
                return bad(format!("line {line}: column '{known_name}' is there twice; remove one"));
            }
            places.push((place, known_name));
        }
        for name in form.required {
            if !places.iter().any(|(_, other)| other == name) {
                let list = form.required.join(", ");
                return bad(format!("line {line}: column '{name}' is missing; {} tables need {list}", form.name));
            }
        }
        Ok(Columns { form, places, width: names.len() })
    }
}

/// A column name in lower case with underscores, and without aliases.
fn canonical(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("_").to_ascii_lowercase();
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, canonical)| (*canonical).into())
}

/// One row, its cells by column name.
struct Row<'a> {
    columns: &'a Columns,
    line: u64,
    record: StringRecord,
}

impl Row<'_> {
    fn layer(&self) -> Result<Layer> {
        let (cells, width) = (self.record.len(), self.columns.width);
        let spare = self.record.iter().skip(width).any(|cell| !cell.is_empty());
        if spare || (cells < width && self.columns.places.iter().any(|(place, _)| *place >= cells)) {
            return bad(format!("line {}: {cells} cells, but the header has {width} columns", self.line));
        }
        let name = self.cell("layer");
        if name.is_empty() {
            return self.refuse("layer", "is empty; give the layer a name");
        }
        let (work, params) = (self.columns.form.work)(self)?;
        let number = |column, most| match self.cell(column) {
            "" => Ok(None),
            _ => self.whole(column, 0, most).map(Some),
        };
        let bucket = number("bucket", u32::MAX.into())?.map(|bucket| bucket as u32);
        let stream = number("stream", MAX_STREAM)?.unwrap_or(0) as u8;
        let demands = match work {
            Work::Measured(_) => Passes([
                self.demand("fwd_comm", |row| row.bytes("fwd_bytes"))?,
                self.demand("ig_comm", |row| row.bytes("ig_bytes"))?,
                self.demand("wg_comm", |row| row.bytes("wg_bytes"))?,
            ]),
            // Outputs go on to the next layer, gradients of inputs to the one before.
            Work::Counts(counts) => Passes([
                self.demand("fwd_comm", |_| Ok(Volume::Elements(counts.output_elements)))?,
                self.demand("ig_comm", |_| Ok(Volume::Elements(counts.input_elements)))?,
                None,
            ]),
            Work::Convolution(_) => Passes::default(),
        };
        Ok(Layer { name: clip(name), work, params, bucket, demands, consumer: None, stream })
    }

    /// The text of a cell; empty if the table has no such column.
    fn cell(&self, column: &str) -> &str {
        let place = self.columns.places.iter().find(|(_, name)| *name == column).map(|(place, _)| *place);
        place.and_then(|place| self.record.get(place)).unwrap_or("")
    }

    fn refuse<T>(&self, column: &str, reason: impl Display) -> Result<T> {
        bad(format!("line {}, column '{column}': {reason}", self.line))
    }

    fn whole(&self, column: &str, least: u64, most: u64) -> Result<u64> {
        let text = self.cell(column);
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => self.refuse(column, format_args!("'{}' is not a whole number from {least} to {most}", clip(text))),
        }
    }

    /// Nanoseconds as picoseconds.
    fn time(&self, column: &str) -> Result<u64> {
        let text = self.cell(column);
        match text.parse::<f64>() {
            Ok(nanos) if (0.0..=MAX_NANOS).contains(&nanos) => Ok((nanos * PICOS_PER_NANO as f64).round() as u64),
            _ => self.refuse(column, format_args!("'{}' is not a time from 0 to {MAX_NANOS:e} ns", clip(text))),
        }
    }

    fn bytes(&self, column: &str) -> Result<Volume> {
        self.whole(column, 0, MAX_BYTES).map(Volume::Bytes)
    }

    fn demand(&self, kind: &str, volume: impl Fn(&Self) -> Result<Volume>) -> Result<Option<Demand>> {
        let text = self.cell(kind).to_ascii_lowercase().replace(['-', '_'], "");
        if text.is_empty() || text == "none" {
            return Ok(None);
        }
        let Some(found) = Kind::ALL.into_iter().find(|kind| kind.name().replace('-', "") == text) else {
            let known: Vec<_> = Kind::ALL.map(Kind::name).to_vec();
            let hint = nearest(&self.cell(kind).to_ascii_lowercase(), known.iter().copied());
            let given = clip(self.cell(kind));
            return self.refuse(kind, format_args!("no collective '{given}'{hint}; known: none, {}", known.join(", ")));
        };
        let volume = volume(self)?;
        let something = !matches!(volume, Volume::Bytes(0) | Volume::Elements(0));
        Ok(something.then_some(Demand { kind: found, volume }))
    }

    /// A product that must stay in range.
    fn product(&self, column: &str, what: &str, factors: &[u64]) -> Result<u64> {
        let product = factors.iter().try_fold(1u64, |product, &factor| product.checked_mul(factor));
        match product {
            Some(product) if product <= MAX_COUNT => Ok(product),
            _ => self.refuse(column, format_args!("the layer has more than 2^50 {what}")),
        }
    }
}

fn shape(row: &Row) -> Result<(Work, u64)> {
    let size = |column| row.whole(column, 1, MAX_DIMENSION);
    let shape = Convolution {
        input_height: size("ifmap_h")?,
        input_width: size("ifmap_w")?,
        filter_height: size("filter_h")?,
        filter_width: size("filter_w")?,
        channels: size("channels")?,
        filters: size("num_filters")?,
        stride: size("stride")?,
    };
    for (filter, input, column) in
        [(shape.filter_height, shape.input_height, "filter_h"), (shape.filter_width, shape.input_width, "filter_w")]
    {
        if filter > input {
            return row.refuse(column, format_args!("a filter of {filter} is larger than its input of {input}"));
        }
    }
    let most = shape.input_height.max(shape.input_width);
    if shape.stride > most {
        return row.refuse("stride", format_args!("a stride of {} is larger than its input of {most}", shape.stride));
    }
    let (height, width) = shape.output();
    let filter = [shape.filter_height, shape.filter_width, shape.channels];
    let weights = row.product("num_filters", "weights", &[&filter[..], &[shape.filters]].concat())?;
    row.product("channels", "input elements", &[shape.input_height, shape.input_width, shape.channels])?;
    row.product("num_filters", "operations", &[height, width, weights])?;
    let params = if row.cell("params").is_empty() { weights } else { row.whole("params", 0, MAX_COUNT)? };
    Ok((Work::Convolution(shape), params))
}

fn totals(row: &Row) -> Result<(Work, u64)> {
    let count = |column| row.whole(column, 0, MAX_COUNT);
    let counts = Counts {
        macs: count("macs")?,
        input_elements: count("input_elements")?,
        output_elements: count("output_elements")?,
    };
    Ok((Work::Counts(counts), count("params")?))
}

fn measured(row: &Row) -> Result<(Work, u64)> {
    let times = Passes([row.time("fwd_compute_ns")?, row.time("ig_compute_ns")?, row.time("wg_compute_ns")?]);
    Ok((Work::Measured(times), 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{PRESETS, Pass};

    const HEADER: &str = "layer,ifmap_h,ifmap_w,filter_h,filter_w,channels,num_filters,stride\n";

    fn message(text: &str) -> String {
        Workload::from_csv("x.csv", text).unwrap_err().message
    }

    #[test]
    fn three_forms() {
        let shapes = Workload::from_csv("x", &format!("{HEADER}a,224,224,11,11,3,96,4\n")).unwrap();
        let Work::Convolution(shape) = shapes.layers[0].work else { panic!() };
        assert_eq!(shape.output(), (54, 54));
        assert_eq!(shapes.params(), 34848);
        assert_eq!(shape.counts().macs, 54 * 54 * 34848);
        let totals = Workload::from_csv("x", "layer,params,macs,inel,outel\na,5,6,7,8\n").unwrap();
        assert_eq!(totals.layers[0].work, Work::Counts(Counts { macs: 6, input_elements: 7, output_elements: 8 }));
        let measured = "layer,fwd_compute_ns,fwd_comm,fwd_bytes,ig_compute_ns,ig_comm,ig_bytes,wg_compute_ns,wg_comm,wg_bytes\n\
                        a,1.5,ALLTOALL,64,2,NONE,0,3,ALLREDUCE,128\n";
        let measured = Workload::from_csv("x", measured).unwrap();
        assert_eq!(measured.layers[0].work, Work::Measured(Passes([1500, 2000, 3000])));
        let demand = Demand { kind: Kind::AllToAll, volume: Volume::Bytes(64) };
        assert_eq!(measured.layers[0].demands[Pass::Forward], Some(demand));
        assert_eq!(measured.layers[0].demands[Pass::InputGradient], None);
    }

    #[test]
    fn totals_say_what_divided_layers_exchange() {
        let header = "layer,params,macs,inel,outel,fwd_comm,ig_comm,consumer\n";
        let text = format!("{header}a,8,6,7,9,all-reduce,none,c\nb,1,1,1,1,,,\nc,1,1,1,1,,allreduce,\n");
        let workload = Workload::from_csv("x", &text).unwrap();
        let layer = &workload.layers[0];
        assert_eq!(layer.demands[Pass::Forward], Some(Demand { kind: Kind::AllReduce, volume: Volume::Elements(9) }));
        assert_eq!((layer.demands[Pass::InputGradient], layer.consumer), (None, Some(2)));
        assert_eq!(workload.divided(4).unwrap().layers[0].params, 2);
        for header in ["layer,params,macs,inel,outel", "layer,params,macs,inel,outel,fwd_comm"] {
            let silent = Workload::from_csv("x", &format!("{header}\na,8,6,7,9,\n")).unwrap();
            let refused = silent.divided(4).unwrap_err();
            assert_eq!(refused.code, Code::NotApplicable);
            assert!(refused.message.contains("add the columns fwd_comm and ig_comm"), "{refused}");
        }
        let wrong = message(&format!("{header}a,8,6,7,9,,,b\n"));
        assert!(wrong.contains("line 2, column 'consumer': no later layer is called 'b'"), "{wrong}");
    }

    #[test]
    fn layers_have_streams() {
        let header = "layer,params,macs,inel,outel,stream\n";
        let workload = Workload::from_csv("x", &format!("{header}a,8,6,7,9,15\nb,1,1,1,1,\n")).unwrap();
        assert_eq!(workload.layers.iter().map(|layer| layer.stream).collect::<Vec<_>>(), [15, 0]);
        let wrong = message(&format!("{header}a,8,6,7,9,16\n"));
        assert!(wrong.contains("line 2, column 'stream'"), "{wrong}");
    }

    #[test]
    fn scale_sim_tables_are_read() {
        let text = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n\
                    Conv1, 224, 224, 11, 11, 3, 96, 4,\n";
        assert_eq!(Workload::from_csv("x", text).unwrap().params(), 34848);
    }

    #[test]
    fn presets_are_read() {
        for preset in &PRESETS {
            assert!(!Workload::preset(preset.name).unwrap().layers.is_empty());
        }
    }

    #[test]
    fn mistakes_name_row_and_column() {
        let row = |cells: &str| message(&format!("{HEADER}ok,8,8,3,3,1,1,1\n{cells}\n"));
        assert!(message("").contains("line 1: the table is empty"));
        assert!(message(HEADER).contains("line 1: no layers below the header"));
        assert!(message("a,b\n1,2\n").contains("line 1: the header is of no known form"));
        let missing = message("layer,ifmap_h,ifmap_w,filter_h,filter_w,channels,num_filters\n");
        assert!(missing.contains("workload x.csv: line 1: column 'stride' is missing"), "{missing}");
        assert!(message("layer,ifmap_h,ifmap_h\n").contains("twice"));
        assert!(message("layer,ifmap_h,strid\n").contains("did you mean 'stride'"));
        assert!(row("a,-8,8,3,3,1,1,1").contains("line 3, column 'ifmap_h': '-8' is not a whole number"));
        assert!(
            row("a,8,8,3,3,1,1,9").contains("line 3, column 'stride': a stride of 9 is larger than its input of 8")
        );
        assert!(row("a,8,8,9,3,1,1,1").contains("line 3, column 'filter_h': a filter of 9"));
        assert!(row("a,8,8,3,3,1,1").contains("line 3: 7 cells, but the header has 8 columns"));
        assert!(row("a,8,8,3,3,1,1,1,5").contains("line 3: 9 cells"));
        assert!(row(",8,8,3,3,1,1,1").contains("line 3, column 'layer': is empty"));
        assert!(row("a,16777216,16777216,3,3,16777216,1,1").contains("line 3, column 'channels'"));
        assert!(row("a,8,8,1e3,3,1,1,1").contains("'1e3' is not a whole number"));
        let most = format!("a,{MAX_COUNT},0,0,0\n");
        let sum = message(&format!("layer,params,macs,inel,outel\n{most}{most}"));
        assert!(sum.contains("line 3: the layers up to here have more than 2^50 weights"), "{sum}");
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let table =
            format!("# about\r\n\r\n{HEADER}\n# more\n\n\"ok\nlong\",8,8,3,3,1,1,1\r\n,,\n# last\na,0,8,3,3,1,1,1\n");
        assert!(message(&table).contains("line 11, column 'ifmap_h'"), "{}", message(&table));
        assert!(message("\n#\n\nlayer,x\n").contains("line 4: the header"));
    }

    #[test]
    fn other_separators_are_named() {
        assert!(message("layer;params\na;1\n").contains("line 1: the columns are separated by ';'; use commas"));
        assert!(message("#\nlayer\tparams\n").contains(r"line 2: the columns are separated by '\t'; use commas"));
    }

    #[test]
    fn a_million_layers_are_read_and_more_refused() {
        let text = format!("{HEADER}{}", "a,8,8,3,3,1,1,1\n".repeat(MAX_LAYERS));
        assert_eq!(Workload::from_csv("x", &text).unwrap().layers.len(), MAX_LAYERS);
        assert!(message(&format!("{text}a,8,8,3,3,1,1,1\n")).contains("line 1048578: more than 1048576 layers"));
    }
}

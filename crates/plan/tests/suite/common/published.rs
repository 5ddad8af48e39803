//! Published figures in data files.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Column name to text.
pub type Row = BTreeMap<String, String>;

/// Rows of a data file, its path given from the repository's root.
pub fn table(path: &str) -> Vec<Row> {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| header.iter().zip(line.split(',')).map(|(k, v)| (k.to_string(), v.to_string())).collect())
        .collect()
}

/// A number of a row.
pub fn number<T: FromStr>(row: &Row, column: &str) -> T {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

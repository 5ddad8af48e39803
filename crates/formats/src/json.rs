//! Recognises JSON by its first telling key, without reading it all.

/// Keys of Antiphon's own schedules.
const OWN: [&str; 4] = ["schema", "lanes", "phases", "transfers"];

/// Whether a text is a JSON object that has one of some keys before any of an own schedule.
///
/// Complexity: O(text before the first such key).
pub fn first_key(text: &str, keys: &[&str]) -> bool {
    let first = top_keys(text).find(|key| OWN.contains(key) || keys.contains(key));
    first.is_some_and(|key| keys.contains(&key))
}

/// The keys of an object, as they are written.
fn top_keys(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let bytes = if text.starts_with('{') { text.as_bytes() } else { &[] };
    let (mut at, mut depth) = (0, 0u32);
    std::iter::from_fn(move || {
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let start = at;
                    while let Some(&byte) = bytes.get(at).filter(|&&byte| byte != b'"') {
                        at += if byte == b'\\' { 2 } else { 1 };
                    }
                    let end = at.min(bytes.len());
                    at = end + 1;
                    let is_key = bytes.get(at..).unwrap_or_default().iter().find(|byte| !byte.is_ascii_whitespace());
                    if depth == 1 && is_key == Some(&b':') {
                        return text.get(start..end);
                    }
                }
                _ => {}
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_outermost_object() {
        let keys = |text| top_keys(text).collect::<Vec<_>>();
        assert_eq!(keys("\u{feff} {\"a\": {\"b\": [\"c\"]}, \"d\\\"\" : \"e:\", \"é\":1}"), ["a", "d\\\"", "é"]);
        assert_eq!(keys("[{\"a\": 1}]"), [""; 0]);
        assert_eq!(keys("{\"a"), [""; 0]);
        assert_eq!(keys("{\"a\\"), [""; 0]);
        assert!(first_key("{\"name\": 1, \"gpus\": [], \"lanes\": 1}", &["gpus"]));
        assert!(!first_key("{\"name\": {\"gpus\": 1}, \"lanes\": 1, \"gpus\": []}", &["gpus"]));
    }
}

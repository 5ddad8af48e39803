//! Attributes for the Python bindings.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Above `#[pyfunction]` or `#[pymethods]`: a literal in `#[pyo3(signature = (...))]` is a default of any type that is
/// `From` it, and what `help` shows. PyO3 by itself shows literals of Rust's own types only.
#[proc_macro_attribute]
pub fn literal_defaults(_: TokenStream, item: TokenStream) -> TokenStream {
    rewritten(item)
}

/// Functions with their attributes, or an `impl` of them.
fn rewritten(items: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = items.into_iter().collect();
    let is_impl = tokens.iter().any(|token| token.to_string() == "impl");
    let each = |(at, token): (usize, &TokenTree)| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && is_impl => {
            regrouped(group, rewritten(group.stream()))
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => attribute(group, &tokens[at..]),
        _ => token.clone(),
    };
    tokens.iter().enumerate().map(each).collect()
}

fn regrouped(group: &Group, stream: TokenStream) -> TokenTree {
    let mut new = Group::new(group.delimiter(), stream);
    new.set_span(group.span());
    new.into()
}

/// `[pyo3(signature = (...))]` with defaults of the right types, and as text; other attributes as they are.
fn attribute(group: &Group, following: &[TokenTree]) -> TokenTree {
    let mut inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let Some(TokenTree::Group(options)) = inside.get(1) else { return group.clone().into() };
    let mut parts: Vec<TokenTree> = options.stream().into_iter().collect();
    let Some(TokenTree::Group(signature)) = parts.get(2) else { return group.clone().into() };
    if parts[0].to_string() != "signature" || options.to_string().contains("text_signature") {
        return group.clone().into();
    }
    let (mut text, mut after, mut arguments) = (receiver(following).to_string(), ' ', TokenStream::new());
    for token in signature.stream() {
        let shown = token.to_string();
        let is_literal = matches!(token, TokenTree::Literal(_)) || shown == "[]";
        let is_typed = after == '=' && is_literal;
        if let TokenTree::Punct(punct) = &token {
            after = punct.as_char();
        }
        text += match &*shown {
            "true" => "True",
            "false" => "False",
            "," => ", ",
            // A type for the stub.
            _ if after == ':' => "",
            other => other,
        };
        let typed = format!("::core::convert::From::from({shown})");
        arguments.extend(if is_typed { typed.parse().expect("an expression") } else { TokenStream::from(token) });
    }
    let text = format!(", text_signature = {:?}", format!("({})", text.trim_end_matches(", ")));
    parts[2] = regrouped(signature, arguments);
    parts.extend(text.parse::<TokenStream>().expect("an option"));
    inside[1] = regrouped(options, parts.into_iter().collect());
    regrouped(group, inside.into_iter().collect())
}

/// How the text of a signature begins: what the next function is called on.
fn receiver(following: &[TokenTree]) -> &'static str {
    let mut after_name = following.iter().skip_while(|token| token.to_string() != "fn");
    let is_arguments =
        |token: &&TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
    let arguments = after_name.find(is_arguments).map_or_else(String::new, ToString::to_string);
    match arguments.split([':', ',', ')']).next().unwrap_or_default() {
        first if first.ends_with("self") => "$self, ",
        first if first.ends_with("class") => "$cls, ",
        _ => "",
    }
}

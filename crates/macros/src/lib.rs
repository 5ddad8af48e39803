//! Attributes for the Python bindings.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Above `#[pyfunction]` or `#[pymethods]`: a literal in `#[pyo3(signature = (...))]` is a default of any type that is
/// `From` it, and what `help` shows. PyO3 knows literals of Rust's own types only.
#[proc_macro_attribute]
pub fn literal_defaults(_: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let is_methods = tokens.iter().any(|token| token.to_string() == "impl");
    let whole = |(at, token): (usize, &TokenTree)| match token {
        TokenTree::Group(group) if is_methods && group.delimiter() == Delimiter::Brace => {
            let methods: Vec<TokenTree> = group.stream().into_iter().collect();
            regroup(group, methods.iter().enumerate().map(|(at, token)| declared(token, &methods[at..])).collect())
        }
        _ => declared(token, &tokens[at..]),
    };
    tokens.iter().enumerate().map(whole).collect()
}

fn regroup(group: &Group, stream: TokenStream) -> TokenTree {
    let mut new = Group::new(group.delimiter(), stream);
    new.set_span(group.span());
    new.into()
}

/// The attribute `[pyo3(signature = ...)]` of what follows, with defaults of the right types and a `text_signature`; any
/// other token as it is.
fn declared(token: &TokenTree, following: &[TokenTree]) -> TokenTree {
    let TokenTree::Group(attribute) = token else { return token.clone() };
    let inside: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let [TokenTree::Ident(name), TokenTree::Group(options)] = &inside[..] else { return token.clone() };
    let mut options_inside: Vec<TokenTree> = options.stream().into_iter().collect();
    let is_ours = name.to_string() == "pyo3" && !options.to_string().contains("text_signature");
    let Some(TokenTree::Group(signature)) = options_inside.get(2).filter(|_| is_ours) else { return token.clone() };
    let (mut text, mut after) = (receiver(following), ' ');
    let mut arguments = TokenStream::new();
    for argument in signature.stream() {
        let shown = argument.to_string();
        let is_literal = matches!(argument, TokenTree::Literal(_)) || shown == "[]";
        match &argument {
            TokenTree::Punct(punct) => after = punct.as_char(),
            _ if after == '=' && is_literal => {
                text += &shown;
                arguments.extend(format!("::core::convert::From::from({shown})").parse::<TokenStream>());
                continue;
            }
            _ => {}
        }
        match &*shown {
            ":" => {}
            "true" | "false" => text += if shown == "true" { "True" } else { "False" },
            "," => text += ", ",
            _ if after == ':' => {}
            _ => text += &shown,
        }
        arguments.extend([argument]);
    }
    options_inside[2] = regroup(signature, arguments);
    options_inside.extend(
        format!(", text_signature = {:?}", format!("({})", text.trim_end_matches(", ")))
            .parse::<TokenStream>()
            .into_iter()
            .flatten(),
    );
    let options = regroup(options, options_inside.into_iter().collect());
    regroup(attribute, [TokenTree::Ident(name.clone()), options].into_iter().collect())
}

/// How a text signature begins: what the next function is called on.
fn receiver(following: &[TokenTree]) -> String {
    let name = following.iter().position(|token| token.to_string() == "fn").unwrap_or_default();
    let is_arguments =
        |token: &&TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
    let arguments = following[name..].iter().find(is_arguments).map_or_else(String::new, ToString::to_string);
    let first = arguments.split([':', ',']).next().unwrap_or_default();
    if first.contains("self") {
        "$self, ".into()
    } else if first.contains("class") {
        "$cls, ".into()
    } else {
        String::new()
    }
}

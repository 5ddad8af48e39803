//! Attributes for the Python bindings.

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, TokenStream, TokenTree};

/// Above `#[pyfunction]` or `#[pymethods]`: a literal in `#[pyo3(signature = (...))]` is a default of any type that is
/// `From` it, and what `help` shows. PyO3 by itself shows literals of Rust's own types only. `getters! { name: type = value; }`
/// declares properties.
#[proc_macro_attribute]
pub fn literal_defaults(_: TokenStream, item: TokenStream) -> TokenStream {
    rewritten(item)
}

/// `value.name`; a `name_ns` is the field `name_ps` in ns.
#[proc_macro]
pub fn field(item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let Some(TokenTree::Ident(name)) = tokens.pop() else { panic!("a field") };
    let Some(stem) = name.to_string().strip_suffix("_ns").map(str::to_string) else {
        tokens.push(name.into());
        return tokens.into_iter().collect();
    };
    tokens.push(Ident::new(&format!("{stem}_ps"), name.span()).into());
    let mut call: TokenStream = "crate::convert::ToNanos::nanos".parse().expect("a path");
    tokens.insert(0, Punct::new('&', Spacing::Alone).into());
    call.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, tokens.into_iter().collect()))]);
    call
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
    let is_getters = |at: usize| tokens.get(at).is_some_and(|token| token.to_string() == "getters");
    let expanded = |(at, token): (usize, &TokenTree)| match token {
        TokenTree::Group(group) if at > 1 && is_getters(at - 2) => getters(group),
        _ if is_getters(at) || at > 0 && is_getters(at - 1) => TokenStream::new(),
        _ => each((at, token)).into(),
    };
    tokens.iter().enumerate().map(expanded).collect()
}

/// Methods `#[getter] fn name(&self) -> type { value }` of `name: type = value;`.
fn getters(group: &Group) -> TokenStream {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let is = |token: &TokenTree, mark| matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark);
    let mut methods = TokenStream::new();
    for getter in tokens.split(|token| is(token, ';')).filter(|getter| !getter.is_empty()) {
        let (declared, value) = getter.split_at(getter.iter().position(|token| is(token, '=')).expect("a value"));
        let (named, kind) = declared.split_at(declared.iter().position(|token| is(token, ':')).expect("a type"));
        let (name, comment) = named.split_last().expect("a name");
        let of = |tokens: &[TokenTree]| tokens.iter().cloned().collect::<TokenStream>();
        let body = Group::new(Delimiter::Brace, of(&value[1..]));
        methods.extend(of(comment));
        methods.extend(format!("#[getter] fn {name}(&self) -> ").parse::<TokenStream>().expect("a method"));
        methods.extend(of(&kind[1..]));
        methods.extend([TokenTree::from(body)]);
    }
    methods
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

//! Tests the model itself, for mistakes that comparisons with the server would not show.

use crate::model::pattern::{Fill, Node, Pattern, captured};

fn digits(min: usize) -> Node {
    Node::Repeat(Box::new(Node::Digit), min, None)
}

#[test]
fn patterns_match_as_a_regex_does() {
    let star = Node::Repeat(Box::new(Node::Dot), 0, None);
    let group = Node::Group(
        1,
        Some("n"),
        vec![vec![digits(1)], vec![Node::Literal(b"x".to_vec())]],
    );
    let pattern = Pattern(vec![
        Node::Literal(b"a.".to_vec()),
        group.clone(),
        star.clone(),
    ]);
    assert_eq!(pattern.regex(), br"a\.(?P<n>\d+|x).*");
    let text = b"aba.12ca.3";
    let captures = pattern.find(text).expect("the pattern matches");
    assert_eq!(captures, [Some((2, 10)), Some((4, 6))]);
    let names = pattern.groups();
    assert_eq!(
        captured(text, &captures, &names, &Fill::Name("n")),
        Some(b"12".to_vec())
    );
    assert!(pattern.full(text).is_none());
    assert!(!pattern.starts(text) && pattern.starts(b"a.x"));
    // A greedy match first, then backtracking.
    let greedy = Pattern(vec![
        Node::Group(1, None, vec![vec![star]]),
        Node::Literal(b"a".to_vec()),
    ]);
    let captures = greedy.find(b"banana!").expect("the pattern matches");
    assert_eq!(captures[1], Some((0, 5)));
    // An optional group that does not match.
    let maybe = Pattern(vec![Node::Repeat(Box::new(group), 0, Some(1)), Node::End]);
    assert_eq!(maybe.full(b"").expect("the pattern matches")[1], None);
    assert_eq!(
        maybe.find(b"a7").expect("the pattern matches"),
        [Some((1, 2)), Some((1, 2))]
    );
}

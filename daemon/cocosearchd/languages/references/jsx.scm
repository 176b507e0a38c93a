; Elements of JSX: a component is called, an element of HTML is no use.
(jsx_opening_element name: [(identifier) (member_expression)] @call)
(jsx_self_closing_element name: [(identifier) (member_expression)] @call)
((jsx_opening_element name: (identifier) @ignored) (#match? @ignored "^[a-z]"))
((jsx_self_closing_element name: (identifier) @ignored) (#match? @ignored "^[a-z]"))
(jsx_closing_element) @ignored
(jsx_namespace_name) @ignored

; Functions bound to a name.
(binary_operator lhs: (identifier) @name rhs: (function_definition body: (_) @body)) @definition.function

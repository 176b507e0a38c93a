; Types and values; a value and its annotation are one definition.
(type_declaration name: (_) @name) @definition.type
(type_alias_declaration name: (_) @name) @definition.type
(type_annotation name: (_) @name) @clause.function
(value_declaration functionDeclarationLeft: (function_declaration_left . (_) @name) body: (_) @body) @clause.function

; Classes, functions and methods (decided by what encloses them), module-level names, type aliases.
(class_definition name: (identifier) @name) @definition.class
(function_definition name: (identifier) @name) @definition.function
(type_alias_statement left: (type (identifier) @name)) @definition.type
(module (assignment left: (identifier) @name) @definition.constant)

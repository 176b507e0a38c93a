; Types of all kinds, extensions, functions, initialisers, top-level values.
(class_declaration "struct" name: (_) @name) @definition.struct
(class_declaration "enum" name: (_) @name) @definition.enum
(class_declaration "extension" name: (_) @name) @definition.extension
(class_declaration "actor" name: (_) @name) @definition.class
(class_declaration name: (_) @name) @definition.class
(protocol_declaration name: (type_identifier) @name) @definition.interface
(function_declaration name: (simple_identifier) @name) @definition.function
(protocol_function_declaration name: (simple_identifier) @name) @definition.method
(init_declaration "init" @name) @definition.method
(deinit_declaration "deinit" @name) @definition.method
(subscript_declaration "subscript" @name (computed_property) @body) @definition.method
(typealias_declaration name: (type_identifier) @name) @definition.type
(source_file (property_declaration name: (pattern (simple_identifier) @name)) @definition.constant)
(class_body (property_declaration name: (pattern (simple_identifier) @name) (computed_property) @body) @definition.property)

; A namespace without braces reaches to the next one. Functions assigned to variables count as functions.
(namespace_definition name: (namespace_name) @name) @definition.namespace
(class_declaration name: (name) @name) @definition.class
(interface_declaration name: (name) @name) @definition.interface
(trait_declaration name: (name) @name) @definition.trait
(enum_declaration name: (name) @name) @definition.enum
(method_declaration name: (name) @name) @definition.method
(function_definition name: (name) @name) @definition.function
(assignment_expression left: (variable_name) @name
  right: [(anonymous_function body: (_) @body) (arrow_function body: (_) @body)]) @definition.function
(const_declaration (const_element (name) @name)) @definition.constant

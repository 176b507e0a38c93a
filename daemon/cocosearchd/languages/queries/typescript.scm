; JavaScript's ways to name a function, and types, interfaces, enums, namespaces, signatures.
(class_declaration name: (type_identifier) @name) @definition.class
(abstract_class_declaration name: (type_identifier) @name) @definition.class
(interface_declaration name: (type_identifier) @name) @definition.interface
(type_alias_declaration name: (type_identifier) @name) @definition.type
(enum_declaration name: (identifier) @name) @definition.enum
(internal_module name: (_) @name) @definition.namespace
(module name: (_) @name) @definition.namespace
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(function_signature name: (identifier) @name) @definition.function
(method_definition name: (_) @name) @definition.method
(method_signature name: (_) @name) @definition.method
(abstract_method_signature name: (_) @name) @definition.method
(public_field_definition name: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.method
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @definition.class
(variable_declarator name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)
          (generator_function body: (_) @body)]) @definition.function
(program [(lexical_declaration (variable_declarator name: (identifier) @name
    value: (call_expression arguments: (arguments . [(arrow_function body: (_) @body) (function_expression body: (_) @body)])))
    @definition.function)
  (export_statement (lexical_declaration (variable_declarator name: (identifier) @name
    value: (call_expression arguments: (arguments . [(arrow_function body: (_) @body) (function_expression body: (_) @body)])))
    @definition.function))])
(assignment_expression left: (member_expression) @name
  right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)
          (generator_function body: (_) @body)]) @definition.function
(pair key: (property_identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.method
(export_statement "default" value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.function
(export_statement "default" value: (class body: (_) @body)) @definition.class
(program [(lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant)
  (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant))])

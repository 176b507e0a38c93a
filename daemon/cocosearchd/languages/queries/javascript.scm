; Functions in all the ways they get a name, classes, methods, top-level constants.
(class_declaration name: (identifier) @name) @definition.class
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @definition.class
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: (_) @name) @definition.method
(field_definition property: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.method
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
(assignment_expression left: (member_expression) @name right: (class body: (_) @body)) @definition.class
(pair key: (property_identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.method
(export_statement "default" value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @definition.function
(export_statement "default" value: (class body: (_) @body)) @definition.class
(program [(lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant)
  (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @definition.constant))])

; C's definitions, classes, namespaces, members inside and outside of their class.
(namespace_definition name: (_) @name) @definition.namespace
(class_specifier name: (_) @name body: (_)) @definition.class
(type_definition type: (struct_specifier body: (_) @body) declarator: (type_identifier) @name) @definition.struct
(type_definition type: (enum_specifier body: (_) @body) declarator: (type_identifier) @name) @definition.enum
(struct_specifier name: (_) @name body: (_)) @definition.struct
(union_specifier name: (_) @name body: (_)) @definition.union
(enum_specifier name: (_) @name body: (_)) @definition.enum
(concept_definition name: (identifier) @name) @definition.concept
(alias_declaration name: (type_identifier) @name) @definition.type
(type_definition declarator: (type_identifier) @name) @definition.type
(function_definition declarator: (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (destructor_name) (operator_name)] @name)) @definition.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name)] @name))) @definition.function
(function_definition declarator: (reference_declarator (function_declarator
  declarator: [(identifier) (field_identifier) (qualified_identifier) (operator_name)] @name))) @definition.function
(function_definition declarator: (operator_cast) @name) @definition.method
(function_definition declarator: (qualified_identifier name: (operator_cast)) @name) @definition.method
(preproc_function_def name: (identifier) @name) @definition.macro
(preproc_def name: (identifier) @name value: (_)) @definition.constant
(field_declaration declarator: (function_declarator
  declarator: [(field_identifier) (operator_name)] @name)) @definition.prototype
(field_declaration declarator: (pointer_declarator declarator: (function_declarator
  declarator: (field_identifier) @name))) @definition.prototype
(field_declaration declarator: (reference_declarator (function_declarator
  declarator: [(field_identifier) (operator_name)] @name))) @definition.prototype
(field_declaration_list (declaration declarator: (function_declarator
  declarator: [(identifier) (destructor_name)] @name)) @definition.prototype)
(translation_unit (declaration declarator: (function_declarator declarator: (identifier) @name)) @definition.prototype)
(declaration_list (declaration declarator: (function_declarator declarator: (identifier) @name)) @definition.prototype)
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @definition.variable)

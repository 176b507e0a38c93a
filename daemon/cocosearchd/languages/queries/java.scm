; Types, methods and constructors, constants (static final fields).
(class_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(annotation_type_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.enum
(method_declaration name: (identifier) @name) @definition.method
(annotation_type_element_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(compact_constructor_declaration name: (identifier) @name) @definition.method
((field_declaration (modifiers) @_modifiers declarator: (variable_declarator name: (identifier) @name)) @definition.constant
  (#match? @_modifiers "static[^a-z]+final|final[^a-z]+static"))

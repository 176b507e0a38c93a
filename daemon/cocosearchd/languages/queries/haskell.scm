; Types, classes, instances; the signature and the equations of a function are one definition.
(data_type name: (_) @name) @definition.type
(newtype name: (_) @name) @definition.type
(type_synomym name: (_) @name) @definition.type
(class name: (_) @name) @definition.class
(instance name: (_) @name) @definition.impl
(signature name: (variable) @name) @clause.function
(function name: (variable) @name match: (_) @body) @clause.function
(declarations (bind name: (variable) @name) @clause.function)

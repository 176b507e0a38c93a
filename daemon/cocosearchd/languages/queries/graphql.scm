; Types of all kinds, named operations, fragments.
(object_type_definition (name) @name) @definition.class
(interface_type_definition (name) @name) @definition.interface
(enum_type_definition (name) @name) @definition.enum
(input_object_type_definition (name) @name) @definition.struct
(union_type_definition (name) @name) @definition.union
(scalar_type_definition (name) @name) @definition.type
(operation_definition (name) @name (selection_set) @body) @definition.function
(fragment_definition (fragment_name) @name (selection_set) @body) @definition.function

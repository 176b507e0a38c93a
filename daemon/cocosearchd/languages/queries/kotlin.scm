; Classes of all kinds, objects, functions with the type they extend as owner, top-level properties.
(class_declaration "interface" (type_identifier) @name (class_body)? @body) @definition.interface
(class_declaration (type_identifier) @name (enum_class_body) @body) @definition.enum
(class_declaration (type_identifier) @name (class_body)? @body) @definition.class
(object_declaration (type_identifier) @name (class_body)? @body) @definition.object
(companion_object "companion" . "object" . (type_identifier) @name (class_body)? @body) @definition.object
(companion_object "companion" @name (class_body)? @body) @definition.object
(function_declaration receiver: (receiver_type [(user_type . (type_identifier) @owner) (nullable_type (user_type . (type_identifier) @owner))])
  (simple_identifier) @name (function_body)? @body) @definition.function
(function_declaration (simple_identifier) @name (function_body)? @body) @definition.function
(secondary_constructor "constructor" @name) @definition.method
(type_alias (type_identifier) @name) @definition.type
(source_file (property_declaration (variable_declaration (simple_identifier) @name)) @definition.constant)
(class_body (property_declaration (variable_declaration (simple_identifier) @name)) @definition.property)

; The body of a function is the node after its signature.
(class_definition name: (identifier) @name) @definition.class
(mixin_declaration (identifier) @name (class_body) @body) @definition.class
(extension_declaration name: (identifier) @name) @definition.extension
(enum_declaration name: (identifier) @name) @definition.enum
((function_signature name: (identifier) @name) @definition.function . (function_body) @body)
((method_signature (function_signature name: (identifier) @name)) @definition.method . (function_body) @body)
((method_signature (getter_signature name: (identifier) @name)) @definition.method . (function_body) @body)
((method_signature (setter_signature name: (identifier) @name)) @definition.method . (function_body) @body)
((method_signature (factory_constructor_signature (identifier) (identifier) @name)) @definition.method . (function_body) @body)
((method_signature (constructor_signature name: (identifier) @name)) @definition.method . (function_body) @body)
(declaration (function_signature name: (identifier) @name)) @definition.method
(declaration (constructor_signature name: (identifier) @name)) @definition.method
(type_alias . (type_identifier) @name) @definition.type

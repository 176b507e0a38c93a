; Classes, objects, traits, enums, functions, types; values of a file or a template are minor.
(class_definition name: (identifier) @name) @definition.class
(object_definition name: (identifier) @name) @definition.object
(package_object name: (identifier) @name) @definition.object
(trait_definition name: (identifier) @name) @definition.trait
(enum_definition name: (identifier) @name) @definition.enum
(extension_definition (parameters (parameter type: (_) @name))) @definition.extension
(function_definition name: (_) @name) @definition.function
(function_declaration name: (_) @name) @definition.function
(type_definition name: (type_identifier) @name) @definition.type
(given_definition name: (identifier) @name) @definition.constant
(template_body (val_definition pattern: (identifier) @name) @definition.constant)
(compilation_unit (val_definition pattern: (identifier) @name) @definition.constant)

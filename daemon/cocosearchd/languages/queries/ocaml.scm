; Modules, types, values with parameters, classes.
(module_definition (module_binding (module_name) @name)) @definition.module
(module_type_definition (module_type_name) @name) @definition.interface
(type_definition (type_binding name: (type_constructor) @name)) @definition.type
(class_definition (class_binding (class_name) @name)) @definition.class
(method_definition name: (method_name) @name) @definition.method
(value_definition (let_binding pattern: (value_name) @name (parameter) body: (_) @body)) @definition.function
(value_definition (let_binding pattern: (value_name) @name body: [(fun_expression) (function_expression)] @body)) @definition.function
(compilation_unit (value_definition (let_binding pattern: (value_name) @name)) @definition.constant)

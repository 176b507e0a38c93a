; Modules, types, functions.
(named_module name: (_) @name) @definition.module
(namespace name: (_) @name) @definition.namespace
(module_defn (identifier) @name) @definition.module
(type_definition (_ (type_name type_name: (_) @name))) @definition.type
(function_or_value_defn (function_declaration_left . (_) @name) body: (_) @body) @definition.function

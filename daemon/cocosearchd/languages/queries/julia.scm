; Modules, types, functions in both forms, macros.
(module_definition name: (identifier) @name) @definition.module
(struct_definition (type_head [(identifier) @name (parametrized_type_expression (identifier) @name)
  (binary_expression . [(identifier) @name (parametrized_type_expression (identifier) @name)])])) @definition.struct
(abstract_definition (type_head [(identifier) @name (binary_expression . (identifier) @name)])) @definition.type
(function_definition (signature [(call_expression . (_) @name) (typed_expression (call_expression . (_) @name))
  (where_expression (call_expression . (_) @name))])) @definition.function
(assignment . (call_expression . (identifier) @name)) @definition.function
(macro_definition (signature (call_expression . (identifier) @name))) @definition.macro

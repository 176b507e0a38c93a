; Imports, uses, variables and their types of Rust. `reference_query.py` explains the captures.

; Names, paths `a::b::c`, calls and types. A member without a call is a field: that is no use.
(identifier) @name
(scoped_identifier) @name
[(type_identifier) (scoped_type_identifier)] @type
(call_expression function: [(identifier) (scoped_identifier) (field_expression)] @call)
(call_expression function: (generic_function
  function: [(identifier) (scoped_identifier) (field_expression)] @call))
(macro_invocation macro: [(identifier) (scoped_identifier)] @call)
(impl_item trait: [(type_identifier) (scoped_type_identifier)] @inherit)
(impl_item trait: (generic_type type: [(type_identifier) (scoped_type_identifier)] @inherit))
(trait_item bounds: (trait_bounds [(type_identifier) (scoped_type_identifier)] @inherit))

; The arguments of macros are tokens: chains of up to four names, and calls.
(token_tree [(identifier) (self)] @receiver . ["." "::"] . (identifier) @name)
(token_tree [(identifier) (self) (super) (crate)] @receiver . ["." "::"] . (identifier) . ["." "::"]
  . (identifier) @name)
(token_tree [(identifier) (self) (super) (crate)] @receiver . ["." "::"] . (identifier) . ["." "::"]
  . (identifier) . ["." "::"] . (identifier) @name)
(token_tree [(identifier) (self)] @receiver . ["." "::"] . (identifier) . (token_tree) . "."
  . (identifier) @name)
(token_tree [(identifier) (self)] @receiver . "::" . (identifier) . (token_tree) . "."
  . (identifier) . (token_tree) . "." . (identifier) @name)
(token_tree (identifier) @call . (token_tree))
(token_tree (identifier) @call . "!" . (token_tree))
((token_tree "." . (identifier) @ignored . _ @_next) (#not-match? @_next "^[({]"))

; Identifiers that are no uses.
[(function_item name: (identifier) @definition)
 (function_signature_item name: (identifier) @definition)
 (struct_item name: (type_identifier) @definition)
 (enum_item name: (type_identifier) @definition)
 (union_item name: (type_identifier) @definition)
 (trait_item name: (type_identifier) @definition)
 (type_item name: (type_identifier) @definition)
 (associated_type name: (type_identifier) @definition)
 (mod_item name: (identifier) @definition)
 (macro_definition name: (identifier) @definition)
 (enum_variant name: (identifier) @definition)
 (const_item name: (identifier) @definition)
 (static_item name: (identifier) @definition)]
[(lifetime) (use_declaration) (extern_crate_declaration) (attribute_item) (inner_attribute_item) (token_tree_pattern)] @ignored
((type_identifier) @ignored (#eq? @ignored "Self"))

; Scopes and their variables. A name in a pattern is a constant if it begins with a capital letter.
(function_item parameters: (_) @parameters body: (block) @scope)
(function_signature_item) @scope
(closure_expression parameters: (_) @parameters body: (_) @scope)
[(block) (match_arm) (if_expression) (while_expression) (for_expression)] @scope
((parameter pattern: (identifier) @variable))
((let_declaration pattern: (identifier) @variable) (#match? @variable "^[a-z_]"))
((for_expression pattern: (identifier) @variable))
((closure_parameters (identifier) @variable))
((tuple_pattern (identifier) @variable) (#match? @variable "^[a-z_]"))
((slice_pattern (identifier) @variable) (#match? @variable "^[a-z_]"))
((or_pattern (identifier) @variable) (#match? @variable "^[a-z_]"))
((tuple_struct_pattern type: (_) (identifier) @variable) (#match? @variable "^[a-z_]"))
((match_pattern (identifier) @variable) (#match? @variable "^[a-z_]"))
((field_pattern pattern: (identifier) @variable) (#match? @variable "^[a-z_]"))
(field_pattern name: (shorthand_field_identifier) @variable)
[(ref_pattern (identifier) @variable)
 (mut_pattern (identifier) @variable)
 (reference_pattern (identifier) @variable)
 (captured_pattern . (identifier) @variable)]
[(function_item) (function_signature_item) (struct_item) (enum_item) (union_item) (impl_item)
 (trait_item) (type_item)] @scope.type_parameters
(const_parameter name: (identifier) @type_parameter)
(type_parameter name: (type_identifier) @type_parameter)

; Types and values of variables, fields and results.
(parameter pattern: [(identifier) @binding (mut_pattern (identifier) @binding)] type: (_) @binding.type)
(let_declaration pattern: (identifier) @binding type: (_) @binding.type)
(let_declaration pattern: (identifier) @binding value: [
  (call_expression function: (_) @binding.call)
  (try_expression (call_expression function: (_) @binding.call))
  (await_expression (call_expression function: (_) @binding.call))
  (struct_expression name: (_) @binding.type)
  (reference_expression value: [(identifier) (field_expression)] @binding.value)
  (reference_expression value: (call_expression function: (_) @binding.call))
  (index_expression . (_) @binding.element)
  [(identifier) (field_expression)] @binding.value])
(const_item name: (identifier) @binding type: (_) @binding.type)
(static_item name: (identifier) @binding type: (_) @binding.type)
(field_declaration name: (field_identifier) @binding type: (_) @binding.type)
(for_expression pattern: (identifier) @binding value: (_) @binding.element)
(function_item return_type: (_) @binding.return)
(function_signature_item return_type: (_) @binding.return)
(type_item name: (type_identifier) @binding type: (_) @binding.value)

(type_parameter name: (type_identifier) @binding bounds: (trait_bounds . (_) @binding.value))
(where_predicate left: (type_identifier) @binding bounds: (trait_bounds . (_) @binding.value))

; Imports: trees of paths. `mod a;` names a file.
((use_declaration (visibility_modifier) argument: (_) @import.tree) (#set! import.exported "true"))
(use_declaration . argument: (_) @import.tree)
((mod_item name: (identifier) @import.module @import.local !body) (#set! import.exported "true"))
((extern_crate_declaration name: (identifier) @import.module alias: (identifier) @import.local)
  (#set! import.exported "true"))

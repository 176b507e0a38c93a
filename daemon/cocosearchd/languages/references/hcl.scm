; Uses and imports of HCL and Terraform. `reference_query.py` explains the captures.

; Addresses: `var.a`, `local.a`, `module.a`, `type.name`, `data.type.name`.
(expression (variable_expr (identifier) @receiver) . (get_attr (identifier) @name))
((expression (variable_expr (identifier) @receiver) . (get_attr) . (get_attr (identifier) @name))
  (#eq? @receiver "data"))

; Imports: the directory of a module.
((block . (identifier) @_kind (body (attribute (identifier) @_source
  (expression (literal_value (string_lit (template_literal) @import.module))))))
  (#eq? @_kind "module") (#eq? @_source "source") (#set! import.name "*"))

; inherits: ecmascript, jsx

(class_declaration name: (identifier) @definition)
(class name: (identifier) @definition)
(class_heritage [(identifier) (member_expression)] @inherit)
(formal_parameters (identifier) @variable)
(object_assignment_pattern left: (shorthand_property_identifier_pattern) @variable)
(field_definition property: (property_identifier) @binding
  value: [(call_expression function: (_) @binding.call)
          (new_expression constructor: (_) @binding.call)
          [(identifier) (member_expression)] @binding.value])

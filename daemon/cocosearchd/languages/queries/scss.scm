; Mixins, functions, placeholders and rules by their selectors, keyframes, variables of the file.
(mixin_statement name: (identifier) @name (block) @body) @definition.function
(function_statement name: (identifier) @name (block) @body) @definition.function
(rule_set (selectors) @label (block) @body) @definition.rule
(keyframes_statement (keyframes_name) @label (keyframe_block_list) @body) @definition.keyframes
(stylesheet (declaration (property_name) @label) @definition.variable (#match? @label "^\\$"))

; Rules by their selectors, keyframes, custom properties of :root.
(rule_set (selectors) @label (block) @body) @definition.rule
(keyframes_statement (keyframes_name) @label (keyframe_block_list) @body) @definition.keyframes

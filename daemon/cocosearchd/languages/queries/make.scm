; Targets.
(rule (targets) @label (recipe) @body) @definition.rule

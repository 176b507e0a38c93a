; Stages, by their name or else by their image.
(from_instruction as: (image_alias) @name) @definition.stage
(from_instruction (image_spec) @label !as) @definition.stage

; Blocks at the top level, named as Terraform addresses are: resource.aws_s3_bucket.data. Each local is a constant.
(config_file (body (block (identifier) @name @kind . (string_lit)? @name . (string_lit)? @name . (block_start) @body) @definition.block))
(config_file (body (block (identifier) @_keyword (body (attribute (identifier) @name) @definition.constant)) (#eq? @_keyword "locals")))

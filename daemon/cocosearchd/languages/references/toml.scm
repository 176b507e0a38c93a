; The name of a package of Rust, in its manifest. `reference_query.py` explains the captures.
((table (bare_key) @_table (pair (bare_key) @_name (string) @package))
  (#eq? @_table "package") (#eq? @_name "name"))

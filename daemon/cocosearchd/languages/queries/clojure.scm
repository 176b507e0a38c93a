; Lists that define: functions, macros, protocols, records, values.
((source (list_lit . value: (sym_lit) @_form . value: (sym_lit name: (sym_name) @name)) @definition.function)
  (#any-of? @_form "defn" "defn-" "defmulti" "defmethod" "deftest"))
((source (list_lit . value: (sym_lit) @_form . value: (sym_lit name: (sym_name) @name)) @definition.macro) (#eq? @_form "defmacro"))
((source (list_lit . value: (sym_lit) @_form . value: (sym_lit name: (sym_name) @name)) @definition.interface) (#eq? @_form "defprotocol"))
((source (list_lit . value: (sym_lit) @_form . value: (sym_lit name: (sym_name) @name)) @definition.class)
  (#any-of? @_form "defrecord" "deftype"))
((source (list_lit . value: (sym_lit) @_form . value: (sym_lit name: (sym_name) @name)) @definition.constant)
  (#any-of? @_form "def" "defonce"))

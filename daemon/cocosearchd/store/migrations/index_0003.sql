-- Words of new rows wait in a list until there are enough of them to enter the index together. Each row by itself was
-- most of what a write cost: some hundred pages to change and to log. A search reads the list as well, so it is short.
alter index {chunks_text} set (fastupdate = on, gin_pending_list_limit = 1024);
alter index {chunks_kinds} set (fastupdate = on, gin_pending_list_limit = 128);

-- Words of new rows wait in a list and enter the index together. Entering each row separately was most of the cost of a
-- write: some hundred pages to change and to log. A search reads the list as well, so it is short.
alter index {chunks_text} set (fastupdate = on, gin_pending_list_limit = 1024);
alter index {chunks_kinds} set (fastupdate = on, gin_pending_list_limit = 128);

-- Which words for full text search an index keeps beside its chunks: see the schema.
alter table cocosearch_indexes
    add column words text not null default 'none' check (words in ('none', 'filling', 'complete'));

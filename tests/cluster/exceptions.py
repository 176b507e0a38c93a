"""Tests of the store and of searches that do not hold in a distributed schema, with the reason."""

OLD_SCHEMA = "no distributed schema is as old as the one that this test begins with"
OTHER_SCHEMA = "this test makes a schema that is not distributed, and leaves it in the database"
WITHOUT = "this test is about a database without Citus"
FLUSH = "statistics of a node are there within a second, not at once"

LARGE_READ = "the statement by which the test reads 12,000 rows takes the node longer than one may"

EXCEPTIONS = {
    "test_chunk_retention.py::test_a_large_file_is_forgotten_in_time": LARGE_READ,
    "test_citus.py::test_without_citus_no_schema_is_distributed": WITHOUT,
    "test_instance_lock.py::test_a_server_that_is_away_for_long_is_said_once": (
        "the database of this test refuses connections, and other tests share it"
    ),
    "test_instance_lock.py::test_registries_in_other_schemas_are_others": OTHER_SCHEMA,
    "test_migrate.py::test_schema_files_equal_the_sum_of_migrations": OLD_SCHEMA,
    "test_migrate.py::test_a_schema_has_a_registry_of_its_own_beside_another": OTHER_SCHEMA,
    "test_migrate.py::test_an_old_database_becomes_what_a_new_one_is": OLD_SCHEMA,
    "test_migrate.py::test_an_old_index_answers_and_says_what_it_lacks": OLD_SCHEMA,
    "test_migrate.py::test_files_written_since_are_exact": OLD_SCHEMA,
    "test_migrate.py::test_rows_of_before_are_written_anew_with_their_file": OLD_SCHEMA,
    "test_migrate.py::test_words_leave_the_rows_and_no_row_is_written": OLD_SCHEMA,
    "test_migrate.py::test_places_move_from_chunks_to_files": OLD_SCHEMA,
    "test_migrate.py::test_a_retired_index_is_still_retired_under_the_new_name": OLD_SCHEMA,
    "test_search.py::test_a_worn_vector_index_is_made_anew": FLUSH,
}

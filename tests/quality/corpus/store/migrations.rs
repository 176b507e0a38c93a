//! Brings the schema of a database up to date, one numbered step after another.

pub struct Migration {
    pub version: u32,
    pub statement: &'static str,
}

pub trait Connection {
    fn schema_version(&self) -> u32;
    fn execute(&mut self, statement: &str) -> Result<(), String>;
    fn set_schema_version(&mut self, version: u32) -> Result<(), String>;
}

/// Applies every migration that is newer than the database. Stops at the first failure.
pub fn migrate(connection: &mut dyn Connection, migrations: &[Migration]) -> Result<u32, String> {
    let mut applied = 0;
    for migration in migrations {
        if migration.version > connection.schema_version() {
            connection.execute(migration.statement)?;
            connection.set_schema_version(migration.version)?;
            applied += 1;
        }
    }
    Ok(applied)
}

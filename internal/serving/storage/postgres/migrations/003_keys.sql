-- Keys that all servers of the database ask for: the text of a keys file, in one row. Without the row
-- there are none.
create table keys (
    one boolean primary key default true check (one),
    text bytea not null
);
